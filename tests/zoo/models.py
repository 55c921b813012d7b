"""Models of the kinds that people train, each tiny, with data that it can learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import proxmesh as pm

AGENTS, SAMPLES = 4, 40  # per agent
LENGTH, WIDTH, WORDS = 8, 4, 12  # of sequences


class ViT(nn.Module):
    """Patches, a class token, positions, and two encoder layers with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, stride=4)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, 8))
        self.positions = nn.Parameter(0.1 * torch.randn(1, 5, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Any:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1)
        return self.head(self.encoder(tokens + self.positions)[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.memory = kind(WIDTH, 6, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.memory(x)[0][:, -1])


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.embedding(x).mean(1))


class TiedWords(nn.Module):
    """Guesses whether a sequence is of one half of the words, by embedding them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 6)
        self.scores = nn.Linear(6, WORDS, bias=False)
        self.scores.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Any:
        scores = self.scores(self.embedding(x).mean(1).tanh())
        return scores.view(-1, 2, WORDS // 2).logsumexp(2)


class Buffers(nn.Module):
    """Random features and a scale that never train."""

    frequencies: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.randn(64, 24) / 8)
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)
        self.head = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Any:
        return self.head(torch.cos(self.scale * x.flatten(1) @ self.frequencies))


class Two(nn.Module):
    """An image and words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.image = nn.Linear(64, 4)
        self.head = nn.Linear(8, 2)

    def forward(self, image: Tensor, words: Tensor) -> Any:
        both = [self.image(image.flatten(1)), self.words(words).mean(1)]
        return self.head(torch.cat(both, 1).tanh())


class Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != out:
            shorter = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(shorter, nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Any:
        inner = self.norm2(self.second(self.norm1(self.first(x)).relu()))
        return (inner + self.shortcut(x)).relu()


def resnet(last_stride: int) -> nn.Sequential:
    """ResNet-18 with its eight blocks, thin."""
    widths = [(4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1)]
    widths += [(8, 8, 2), (8, 8, 1), (8, 8, last_stride), (8, 8, 1)]
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        *(Block(*each) for each in widths),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip


def pretrained(model: nn.Module) -> nn.Module:
    """As if it had seen data: statistics that belong to its activations."""
    for _ in range(40):
        model(images()[0].flatten(0, 1))
    return model


def frozen_batch_norm() -> nn.Module:
    model = pm.nn.frozen_statistics(pretrained(resnet(last_stride=2)))
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.requires_grad_(False)
    return model


def frozen_backbone() -> nn.Module:
    body = pretrained(
        nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten())
    )
    return nn.Sequential(body.eval().requires_grad_(False), nn.Linear(216, 2))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Conv2d(3, 6, 2),
        nn.Tanh(), nn.Flatten(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 2),
    )  # fmt: skip


# -- data ------------------------------------------------------------------------------


def labels() -> Tensor:
    return (torch.arange(AGENTS * SAMPLES) % 2).view(AGENTS, SAMPLES)


def images() -> tuple[Tensor, Tensor]:
    """8 x 8 images with a bright square in one of two corners."""
    y = labels()
    x = 0.7 * torch.randn(AGENTS, SAMPLES, 1, 8, 8)
    x[..., :4, :4] += (y == 0)[..., None, None, None]
    x[..., 4:, 4:] += (y == 1)[..., None, None, None]
    return x, y


def sequences() -> tuple[Tensor, Tensor]:
    """Sequences that go up or down."""
    y = labels()
    slope = torch.linspace(-1, 1, LENGTH)[:, None]
    x = 0.5 * torch.randn(AGENTS, SAMPLES, LENGTH, WIDTH)
    return x + (2 * y - 1)[..., None, None] * slope, y


def words() -> tuple[Tensor, Tensor]:
    """Sequences of words, four of five from one half of the dictionary."""
    y = labels()
    half = WORDS // 2
    other = torch.rand(AGENTS, SAMPLES, LENGTH) < 0.2
    drawn = torch.randint(half, (AGENTS, SAMPLES, LENGTH))
    return drawn + half * (y[..., None].bool() ^ other), y


def two_inputs() -> tuple[Any, Tensor]:
    return (images()[0], words()[0]), labels()


def copies() -> tuple[Tensor, Tensor]:
    x = images()[0].flatten(2)
    return x, x


def numbers() -> tuple[Tensor, Tensor]:
    """A smooth function of few variables."""
    x = torch.randn(AGENTS, SAMPLES, 5)
    return x, (x[..., :1] * x[..., 1:2]).tanh() + x[..., 2:3].sin()


@dataclass(frozen=True)
class Case:
    """A model, its data, and the way that its gradients are taken."""

    model: Callable[[], nn.Module]
    data: Callable[[], tuple[Any, Tensor]]
    loss: Callable[..., Tensor] = F.cross_entropy
    together: bool = True

    def problem(self, **options: Any) -> pm.LearningProblem:
        torch.manual_seed(0)
        inputs, targets = self.data()
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        shards = [(tuple(x[i] for x in parts), targets[i]) for i in range(AGENTS)]
        return pm.LearningProblem(
            self.model(), self.loss, shards, batch_size=8, **options
        )


def autoencoder() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 64))


def regression() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1))


MODELS = {
    "mlp": Case(lambda: pm.models.mlp(64, 2, hidden=8), images),
    "lenet": Case(lenet, images),
    "resnet, group norm": Case(lambda: pm.nn.group_norm(resnet(last_stride=1)), images),
    "resnet, frozen batch norm": Case(frozen_batch_norm, images),
    "vit": Case(ViT, images),
    "lstm": Case(lambda: Recurrent(nn.LSTM), sequences, together=False),
    "gru": Case(lambda: Recurrent(nn.GRU), sequences, together=False),
    "embedding": Case(Words, words),
    "frozen backbone": Case(frozen_backbone, images),
    "tied weights": Case(TiedWords, words),
    "buffers": Case(Buffers, images),
    "two inputs": Case(Two, two_inputs),
    "autoencoder": Case(autoencoder, copies, F.mse_loss),
    "regression": Case(regression, numbers, F.mse_loss),
}
"""Every one trains as it is, with constants that are found."""
