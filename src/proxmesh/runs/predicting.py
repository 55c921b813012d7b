"""Predictions of a trained run for samples in a file."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proxmesh.data import files
from proxmesh.data.dataset import Arrays, Dataset, as_tensors
from proxmesh.data.sparse import SparseRows, SparseTable
from proxmesh.data.sparse_files import widened
from proxmesh.errors import InputError
from proxmesh.problems.losses import ONE_OUTPUT
from proxmesh.problems.models import MODELS
from proxmesh.runs.config import Config, load_config
from proxmesh.runs.data_of import data_of_all, outputs_of, suited
from proxmesh.solver.durable import written
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.weights import MODEL_FILES, with_weights_in

__all__ = ["Predictions", "predict"]

AT_ONCE = 2**24  # numbers of samples that a model gets in one piece
SHARE = "share of correct labels"


@final
@dataclass(frozen=True, slots=True)
class Predictions:
    """What a run predicts.

    Parameters
    ----------
    columns
        By name: `prediction`, and the `probability` of a class.
    file
        Where they were written.
    score
        How good they are, where the file has labels.
    """

    columns: dict[str, list[Any]]
    file: Path
    score: str | None = None

    def __len__(self) -> int:
        return len(self.columns["prediction"])


def predict(
    folder: Path, file: Path, out: Path | None = None, force: bool = False
) -> Predictions:
    """Predict labels or numbers for the samples of a file, and write them as a .csv.

    Parameters
    ----------
    folder
        Of a run that has ended. Its training data is read again for what its classes
        are called and how its features were scaled.
    file
        .csv, .npz or LIBSVM, with or without a column of labels.
    out
        Where to write; `predictions.csv` in the folder if not given.
    force
        Whether a file that is there may be overwritten.
    """
    run = RunFolder(folder)
    weights = folder / MODEL_FILES["x"]
    if not folder.is_dir() or not weights.exists():
        raise InputError(
            f"`{folder}` has no trained model (`{weights.name}`). Give the folder of a "
            "run that has ended."
        )
    target = out or folder / "predictions.csv"
    if target.exists() and not force:
        raise InputError(
            f"`{target}` is there already. Choose another file, `--out FILE`, or "
            "overwrite it with `--force`."
        )
    config = load_config(run.path / "config.toml")
    dataset = data_of_all(config)
    model = with_weights_in(weights, _bare(config, dataset))
    inputs, labels = _samples(config, dataset, file)
    outputs = _outputs(model, inputs)
    columns, found = _decoded(config, dataset, outputs)
    score = None if labels is None else _score(config, file, found, labels)
    written(target, _as_csv(columns))
    return Predictions(columns, target, score)


def _bare(config: Config, dataset: Dataset) -> nn.Module:
    """The model of the run, with any weights."""
    name = config.model.name or suited(dataset)
    options = config.model.options
    outputs = outputs_of(config, dataset)
    return MODELS[name](dataset.features, outputs, **options).eval()


def _samples(
    config: Config, dataset: Dataset, file: Path
) -> tuple[Any, NDArray[Any] | None]:
    """Inputs as the model was trained on them, and labels where there are any."""
    options = config.data.options
    label, zero_based = options.get("label"), bool(options.get("zero_based"))
    (x, y), labeled = _read(file, label, zero_based, dataset)
    width = dataset.features
    if x.ndim == 2 and x.shape[1] < width and file.suffix not in {".npz", ".csv"}:
        x = widened(x, width)  # LIBSVM files leave out trailing zeros
    if int(np.prod(x.shape[1:])) != width:
        raise InputError(
            f"`{file}` has samples of {int(np.prod(x.shape[1:])):,} features, but the "
            f"run was trained on {width:,}."
        )
    inputs, _ = as_tensors((x, np.zeros(x.shape[0])))
    if isinstance(inputs, Tensor):
        if dataset.scaling is not None:
            mean, scale = map(torch.from_numpy, dataset.scaling)
            inputs = (inputs.double() - mean) / scale
        inputs = inputs.float().reshape(len(inputs), *dataset.inputs.shape[1:])
    return inputs, y if labeled else None


def _read(
    file: Path, label: str | None, zero_based: bool, dataset: Dataset
) -> tuple[Arrays, bool]:
    """Inputs and labels; of a .csv without labels all columns are inputs."""
    if file.suffix == ".npz":
        return files.read_inputs(file), False
    if file.suffix != ".csv":
        return files.read(file, zero_based=zero_based)[0], True
    try:
        x, y = files.read(file, label)[0]
    except InputError:
        if label is None:
            raise
        x, y = files.read(file)[0]
    if x.shape[1] == dataset.features - 1 and y.dtype.kind in "buif":
        return (np.column_stack([x, y]), np.zeros(len(x))), False
    return (x, y), True


def _outputs(model: nn.Module, inputs: Any) -> Tensor:
    """What the model puts out, a piece at a time."""
    like = next(model.parameters())
    at_once = max(1, AT_ONCE // max(1, int(np.prod(inputs.shape[1:]))))
    found = []
    with torch.no_grad():
        for part in torch.arange(len(inputs)).split(at_once):
            if isinstance(inputs, SparseTable):
                found.append(model(SparseRows(part, inputs)))
            else:
                found.append(model(inputs[part].to(like.dtype)))
    return torch.cat(found).double()


def _decoded(
    config: Config, dataset: Dataset, outputs: Tensor
) -> tuple[dict[str, list[Any]], NDArray[Any]]:
    """Predictions under the names that labels have in the file, or as numbers."""
    kind = ONE_OUTPUT.get(config.model.loss or "")
    if kind == "numbers":
        numbers = outputs[:, 0].numpy()
        return {"prediction": numbers.tolist()}, numbers
    if kind == "signs":
        of_one = torch.sigmoid(outputs[:, 0])
        shares = torch.stack([1 - of_one, of_one], 1)
    else:
        shares = torch.softmax(outputs, 1)
    best, which = shares.max(1)
    labels = dataset.labels or tuple(range(dataset.num_classes))
    named = [labels[i] for i in which.tolist()]
    return {"prediction": named, "probability": best.tolist()}, np.array(named, object)


def _score(
    config: Config, file: Path, found: NDArray[Any], labels: NDArray[Any]
) -> str:
    """How good predictions are, in one line."""
    if ONE_OUTPUT.get(config.model.loss or "") != "numbers":
        correct = np.mean([a == b for a, b in zip(found, labels.tolist(), strict=True)])
        return f"{SHARE} {correct:.4f}"
    given = files.require_numbers(file, labels).astype(float)
    error = float(np.mean((found - given) ** 2))
    spread = float(np.var(given))
    told = f", R2 {1 - error / spread:.4f}" if spread > 0 else ""
    return f"RMSE {error**0.5:.4g}{told}"


def _as_csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = zip(*columns.values(), strict=True)
    writer.writerows(
        [f"{v:.9g}" if isinstance(v, float) else v for v in row] for row in rows
    )
    return text.getvalue()
