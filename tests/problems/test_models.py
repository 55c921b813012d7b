"""The ready models compute what the papers write."""

import torch
from torch import nn

import proxmesh as pm


def test_lenet_is_the_papers_order_of_layers_in_value_and_gradient() -> None:
    torch.manual_seed(0)
    ours = pm.models.lenet()
    layers = dict(ours.named_children())
    written = nn.Sequential(
        layers["0"], nn.Tanh(), nn.MaxPool2d(2),
        layers["3"], nn.Tanh(), nn.MaxPool2d(2),
        *(layers[str(i)] for i in range(6, 10)),
    )  # fmt: skip
    images, labels = torch.randn(12, 1, 28, 28), torch.arange(12) % 10
    images[:, :, :9] = -0.4242  # a constant border, as MNIST has: ties in every pool
    found = []
    for model in (ours, written):
        loss = nn.functional.cross_entropy(model(images), labels)
        grads = torch.autograd.grad(loss, list(ours.parameters()))
        found.append((loss, *grads))
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-14
