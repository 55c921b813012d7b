"""Four sites train a new head on a pretrained backbone; their images stay with them.

    python examples/backbone.py files    # stands in for what lies on four machines
    python examples/backbone.py train    # all sites in one process, or one each:
    torchrun --standalone --nproc-per-node 4 examples/backbone.py train
    mpiexec -n 4 --map-by :OVERSUBSCRIBE python examples/backbone.py train
    python examples/backbone.py serve    # export the model, and predict with it

Killed or stopped, `train` goes on where it was when it is started again.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import proxmesh as pm

DATA, RUN = Path("sites"), Path("runs/backbone")


def files() -> None:
    """Write one private file per site, and one that everybody has."""
    DATA.mkdir(exist_ok=True)
    digits = pm.datasets.digits()
    assert digits.test is not None
    parts = {f"site-{i}": part for i, part in enumerate(digits.split(4))}
    for name, (x, y) in {**parts, "public": digits.test}.items():
        np.savez(DATA / name, x=x.reshape(-1, 1, 8, 8), y=y)


def read(name: str) -> tuple[Tensor, Tensor]:
    """Images and labels of one file."""
    with np.load(DATA / f"{name}.npz") as file:
        return torch.from_numpy(file["x"]), torch.from_numpy(file["y"])


def problem() -> pm.LearningProblem:
    """A frozen backbone, with a head that all sites train together."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    backbone = nn.Sequential(*layers, nn.Flatten())  # in place of one from a hub,
    backbone(read("public")[0])  # which brings running statistics
    frozen = pm.nn.frozen_statistics(backbone).requires_grad_(False)
    return pm.LearningProblem(
        model=nn.Sequential(frozen, nn.Linear(288, 10)),
        loss=nn.functional.cross_entropy,
        shards=lambda site: read(f"site-{site}"),  # a process opens its own sites' only
        test=read("public"),
        regularizer=pm.L1(1e-3),
        batch_size=32,
    )


def train() -> None:
    """Start the run; or go on with it, if it was killed or stopped."""
    log, stop = pm.loggers.TensorBoard(RUN / "log"), pm.EarlyStopping("test_loss", 5)
    if (RUN / "checkpoint").exists():
        result = pm.resume(RUN, problem(), callbacks=[log, stop])
    else:
        result = pm.solve(
            problem(),
            pm.HSMADMM(),
            pm.graphs.ring(4),
            epochs=50,
            out=RUN,
            checkpoint_every=100,
            callbacks=[log, stop],
        )
    print(f"{result.outcome}: test accuracy {result.final['test_accuracy']:.3f}")


def serve() -> None:
    """Export the trained model to one file, load that, and predict."""
    images, labels = read("public")
    model = pm.load(RUN, problem()).model
    assert model is not None
    torch.export.save(torch.export.export(model, (images[:1],)), RUN / "model.pt2")
    served = torch.export.load(RUN / "model.pt2").module()
    print(f"the image of a {labels[0]} is read as {served(images[:1]).argmax()}")


for what in sys.argv[1:] or ["files", "train", "serve"]:
    {"files": files, "train": train, "serve": serve}[what]()
