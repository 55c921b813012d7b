"""Find where a run that was cut off goes on."""

import warnings
from pathlib import Path

from proxmesh.errors import InputError, Notice
from proxmesh.solver.checkpoint import Checkpoint, LaterFormatError, checkpoints_in
from proxmesh.types import World

__all__ = ["newest_manifest", "newest_whole"]


def newest_whole(place: Path, world: World) -> Checkpoint | None:
    """The newest checkpoint that every rank can read; every rank calls it.

    One that is damaged is passed over with a line; None if there is none left.
    """
    there = [path.name for path in checkpoints_in(place)]
    for name in world.share({"names": there})["names"]:
        found, fault = _checked(place / name, world)
        faults = [told["fault"] for told in world.gather({"fault": fault})]
        first = next((text for text in faults if text), None)
        if first is None:
            return found
        if world.is_root:
            _tell(name, first)
    return None


def newest_manifest(place: Path) -> Checkpoint | None:
    """The newest checkpoint that tells what it is of; its rows are not looked at."""
    for path in checkpoints_in(place):
        try:
            return Checkpoint.opened(path)
        except LaterFormatError:
            raise
        except InputError as error:
            _tell(path.name, str(error))
    return None


def _checked(path: Path, world: World) -> tuple[Checkpoint | None, str]:
    try:
        found = Checkpoint.opened(path)
        found.require_whole(world.agents)
    except LaterFormatError:
        raise
    except InputError as error:
        return None, str(error)
    return found, ""


def _tell(name: str, fault: str) -> None:
    warnings.warn(
        f"the checkpoint of iteration {int(name)} cannot be used: {fault} One before "
        "it is taken, if there is one.",
        Notice,
        stacklevel=3,
    )
