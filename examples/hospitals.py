"""Six hospitals train one classifier; no patient's record leaves its hospital.

    python examples/hospitals.py                                # all in one process
    torchrun --standalone --nproc-per-node 6 examples/hospitals.py    # a process each
    mpiexec -n 6 --map-by :OVERSUBSCRIBE python examples/hospitals.py

Their tables differ: one sees tumors that are nearly all malignant, another hardly any.
Every process opens the one file of its own hospital, and tells what that hospital would
have reached alone and what it has now.
"""

from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import proxmesh as pm

FOLDER, HOSPITALS = Path("hospitals"), 6
PUBLIC = pm.datasets.breast_cancer()  # its test set is known to all
MALIGNANT = 0


def table(hospital: int) -> tuple[Tensor, Tensor]:
    """Measurements and diagnoses in the private file of one hospital."""
    file = FOLDER / f"hospital-{hospital}.csv"
    if not file.exists():
        write_stand_in(file, hospital)
    rows = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2, dtype=np.float32)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long()


def write_stand_in(file: Path, hospital: int) -> None:
    """Write what a hospital's own database would hold: few patients, a skewed mix."""
    file.parent.mkdir(exist_ok=True)
    x, y = PUBLIC.split(HOSPITALS, "dirichlet", alpha=0.7, seed=1)[hospital]
    names = ",".join([*(f"measurement_{i}" for i in range(30)), "benign"])
    rows = np.column_stack([x, y])
    np.savetxt(file, rows, "%.6g", delimiter=",", header=names, comments="")


def alone(x: Tensor, y: Tensor) -> LogisticRegression:
    """The classifier that one hospital can make of its own table."""
    return LogisticRegression(max_iter=1000).fit(x, y)


def main() -> pm.Result:
    """Train together; then each hospital compares."""
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        model=pm.models.logistic(30, 2),
        loss=nn.functional.cross_entropy,
        shards=table,  # called for the hospitals of this process only
        test=PUBLIC.test,
        regularizer=pm.L1(1e-3),
        batch_size=8,
    )
    graph = pm.graphs.ring(HOSPITALS)  # each talks to two others
    result = pm.solve(problem, pm.HSMADMM(), graph, steps=400, eval_every=100)
    assert PUBLIC.test is not None
    for hospital in result.problem.agents:
        x, y = table(hospital)
        print(
            f"hospital {hospital}: {len(y):3} patients, "
            f"{(y == MALIGNANT).float().mean():4.0%} malignant; accuracy alone "
            f"{alone(x, y).score(*PUBLIC.test):.3f}, "
            f"together {result.final['test_accuracy']:.3f}",
            flush=True,
        )
    return result


if __name__ == "__main__":
    main()
