"""Your own loop over a DataLoader in every process: workers, augmentation, a scheduler.

    torchrun --nproc-per-node 4 own_loader.py
    mpiexec -n 4 python own_loader.py

As with DistributedDataParallel, every process builds the model and reads its own data.
Unlike there, nothing is reduced over all processes: each sends its parameters to its
neighbors alone.
"""

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset

import proxmesh as pm

GRAPH = pm.graphs.ring(4)  # one agent in each process
EPOCHS = 12


class Shifted(Dataset[tuple[Tensor, Tensor]]):
    """Small images of digits, each time moved by up to a pixel."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images.view(-1, 8, 8), labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Draw the shift here, in a worker: both gradients of a step then see it."""
        shift = torch.randint(-1, 2, (2,)).tolist()
        return torch.roll(self.images[index], shift, (0, 1)), self.labels[index]


def main() -> None:
    """Train on this process's part of the digits."""
    torch.manual_seed(0)  # all agents start from the same weights
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    opt = pm.optim.HSMADMM(model.parameters(), GRAPH, regularizer=pm.L1(1e-4))
    scheduler = CosineAnnealingLR(opt, EPOCHS, eta_min=0.1)  # lr scales the step

    data = pm.datasets.digits()
    loader = DataLoader(
        Shifted(*data.split(4)[opt.agent]),
        batch_size=32,
        shuffle=True,
        drop_last=True,
        num_workers=1,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(opt.agent),
    )
    for _ in range(EPOCHS):
        for images, labels in loader:

            def closure(images: Tensor = images, labels: Tensor = labels) -> Tensor:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                return loss

            opt.step(closure)
        scheduler.step()

    opt.average_()
    assert data.test is not None
    hits = (model(data.test[0]).argmax(1) == data.test[1]).float().mean()
    if opt.agent == 0:
        print(f"test accuracy of the mean model: {hits:.3f}")


if __name__ == "__main__":
    main()
