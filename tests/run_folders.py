"""Small run folders, written by hand, whose numbers are known."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w


def write(
    folder: Path,
    values: list[float],
    outcome: str = "finished",
    message: str = "3 iterations.",
    **task: Any,
) -> None:
    folder.mkdir(parents=True)
    seed = int(folder.name.removeprefix("seed-"))
    config = {
        "seed": seed,
        "algorithm": {"name": folder.parent.name},
        "graph": {"name": "ring", **task},
    }
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    history = pd.DataFrame(
        {
            "iteration": range(len(values)),
            "gradients": [64 * k for k in range(len(values))],
            "bytes_sent": [2_000_000 * k for k in range(len(values))],
            "seconds": [0.5 * k for k in range(len(values))],
            "stationarity": values,
            "test_accuracy": [0.8 + 0.01 * seed] * len(values),
        }
    )
    history.to_csv(folder / "history.csv", index=False)
    final = {"iteration": len(values) - 1}
    summary = {"outcome": outcome, "message": message, "final": final}
    (folder / "summary.json").write_text(json.dumps(summary))
