"""The models of a run folder: files of named tensors, which cannot run code."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from torch import Tensor, nn

from proxmesh.errors import InputError, shortened
from proxmesh.solver.durable import replaced

__all__ = ["MODEL_FILES", "tensors_in", "with_weights_in", "write_weights"]

MODEL_FILES = {"x": "model.safetensors", "sparse": "sparse_model.safetensors"}
"""The file of each model, by the rows that it is the average of."""


def write_weights(file: Path, module: nn.Module) -> None:
    """Write the parameters and buffers of a module in one piece."""
    replaced(file, lambda aside: save_model(module, str(aside)))


def tensors_in(file: Path) -> dict[str, Tensor]:
    """Every tensor of a file by its name, or one line on what is wrong with it."""
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise _unreadable(file, error) from error


def with_weights_in(file: Path, module: nn.Module) -> nn.Module:
    """The module with the weights of a file."""
    try:
        load_model(module, file)
    except (OSError, SafetensorError) as error:
        raise _unreadable(file, error) from error
    except RuntimeError as error:  # names or shapes
        raise InputError(
            f"`{shortened(file)}` holds another model than `{type(module).__name__}` "
            "of this problem. Give the problem of that run."
        ) from error
    return module


def _unreadable(file: Path, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else error
    return InputError(f"`{shortened(file)}` cannot be read: {shortened(reason)}.")
