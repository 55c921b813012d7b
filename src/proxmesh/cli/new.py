"""`proxmesh new`: a small commented project of one's own."""

import os
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.errors import InputError, shortened
from proxmesh.limits import in_one_line

__all__ = ["new"]

SUFFIX = ".template"  # keeps tools from taking them for files of this package
HIDDEN = {"gitignore": ".gitignore"}  # as a template it would hide files from git
LONGEST = 64


def new(
    name: Annotated[str, typer.Argument(help="Name of the project and of its folder.")],
) -> None:
    """Write a small commented project: data, model, config, training, test."""
    folder = Path(name)
    _require_name(folder.name, name)
    if os.path.lexists(folder):
        raise InputError(
            f"`{shortened(folder)}` exists already, and nothing in it is changed. "
            "Choose another name."
        )
    if not folder.parent.is_dir():
        raise InputError(
            f"`{shortened(folder.parent)}` is no folder, so `{folder.name}` cannot be "
            "made in it. Make it first."
        )
    texts = _project(folder.name)
    with in_one_line(f"project `{shortened(folder)}`"):
        folder.mkdir()
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    console.print(f"made {folder} with {', '.join(sorted(texts))}", markup=False)
    console.print("next:")
    for line in (f"cd {folder}", "python data.py", "python train.py"):
        console.print(f"  {line}", markup=False)
    console.print("README.md there has more, also how to train on four processes.")


def _project(name: str) -> dict[str, str]:
    """The text of every file."""
    found = {}
    for template in files("proxmesh.cli").joinpath("project").iterdir():
        file = template.name.removesuffix(SUFFIX)
        text = Template(template.read_text(encoding="utf-8"))
        found[HIDDEN.get(file, file)] = text.substitute(name=name)
    return found


def _require_name(name: str, given: str) -> None:
    """Refuse what would be odd as the name of a folder or in a shell."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or len(name) > LONGEST:
        raise InputError(
            f"`{shortened(given)}` cannot be the name of a project. Use up to "
            f"{LONGEST} letters, digits, `-` and `_`, with a letter first."
        )
