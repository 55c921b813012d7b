"""Run folders written by hand, so that every number on a page is known."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

METHODS = ("hsm-admm", "dsgt", "d-psgd")
STEP = 10


def write_run(
    folder: Path,
    method: str,
    seed: int,
    values: list[float],
    outcome: str = "finished",
    **more: Any,
) -> Path:
    """A run whose stationarity is `values`, with costs that grow evenly."""
    folder.mkdir(parents=True)
    k = [STEP * place for place in range(len(values))]
    config = {
        "seed": seed,
        "algorithm": {"name": method},
        "graph": {"name": "star", "agents": 5},
        "data": {"name": "a9a", "split": "contiguous"},
        "model": {"name": "mlp"},
        "run": {"steps": k[-1], "batch": 64},
        **more,
    }
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    pd.DataFrame(
        {
            "iteration": k,
            "gradients": [64 * n for n in k],
            "bytes_sent": [1000 * n for n in k],
            "seconds": [0.01 * n for n in k],
            "stationarity": values,
            "train_loss": [0.5 + value for value in values],
            "test_accuracy": [0.9 - 0.1 * value for value in values],
        }
    ).to_csv(folder / "history.csv", index=False)
    summary = {
        "outcome": outcome,
        "message": f"{k[-1]} iterations.",
        "final": {"iteration": k[-1]},
        "versions": {"python": "3.11", "torch": "2.13"},
        "machine": {"system": "Linux"},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def write_comparison(top: Path) -> Path:
    """Three methods, two seeds: at iteration 10 k method m has m / k, or 4 m / k."""
    for number, method in enumerate(METHODS, 1):
        for seed in (0, 1):
            values = [number * 4**seed / max(1, k) for k in range(11)]
            write_run(top / method / f"seed-{seed}", method, seed, values)
    return top


def write_tuning(top: Path) -> Path:
    top.mkdir(parents=True)
    rows = {
        "method": ["dsgt"] * 3 + ["d-psgd"] * 3,
        "trial": [0, 1, 2] * 2,
        "outcome": ["finished", "diverged", "finished"] * 2,
        "steps": [100] * 6,
        "stationarity": [0.5, float("inf"), 0.25, 0.1, float("inf"), 0.2],
        "alpha": [0.1, 9.0, 0.3, 0.1, 9.0, 0.2],
        "message": ["100 iterations."] * 6,
    }
    pd.DataFrame(rows).to_csv(top / "trials.csv", index=False)
    tuned = {"command": "proxmesh tune --trials 3", "objective": "stationarity"}
    (top / "params.toml").write_text(tomli_w.dumps({"tuned": tuned}))
    return top
