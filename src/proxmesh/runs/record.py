"""What repeats a comparison: its task and the constants of its methods, as TOML."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from proxmesh.errors import InputError, shortened
from proxmesh.runs.presets import Parameters
from proxmesh.solver.folder import without_empty
from proxmesh.solver.reading import one_line, text_in

__all__ = ["METHODS", "TASK", "command_in", "record_comparison", "written_down"]

TASK, METHODS = "task.toml", "methods.toml"
COMMAND = "# proxmesh compare "
LONGEST_COMMAND = 2000  # characters


def written_down(
    task: Mapping[str, Any], parameters: Parameters, labels: Sequence[str]
) -> tuple[str, str]:
    """The task of a config without its method, and a file for `--params`."""
    methods = {label: parameters.section(label) for label in labels}
    for section in methods.values():
        section["algorithm"] = section.pop("name")
    shared = {name: value for name, value in task.items() if name != "algorithm"}
    return (
        tomli_w.dumps(without_empty(shared)),
        tomli_w.dumps(without_empty({"methods": methods})),
    )


def record_comparison(
    folder: Path,
    task: Mapping[str, Any],
    parameters: Parameters,
    labels: Sequence[str],
    options: Sequence[str],
) -> None:
    """Write both files into the folder of a comparison, with the command on top."""
    words = ["--config", folder / TASK, "--params", folder / METHODS]
    again = ["--algorithms", ",".join(labels), *options, "--out", f"{folder}-again"]
    command = COMMAND + shlex.join(map(str, [*words, *again]))
    shared, methods = written_down(task, parameters, labels)
    try:
        (folder / TASK).write_text(f"{command}\n\n{shared}", encoding="utf-8")
        (folder / METHODS).write_text(methods, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"folder `{shortened(folder)}` cannot be written: {error.strerror}. "
            "Choose another `--out`."
        ) from error


def command_in(folder: Path) -> str:
    """The command that makes the comparison in a folder again, if it is known."""
    if not (folder / TASK).is_file():
        return ""
    first = text_in(folder / TASK).partition("\n")[0]
    if not first.startswith(COMMAND):
        return ""
    return one_line(first.removeprefix("# "), LONGEST_COMMAND)
