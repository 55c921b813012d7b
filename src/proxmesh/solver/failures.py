"""Tell the other ranks why this one goes."""

import contextlib
from collections.abc import Iterator

from proxmesh.errors import LostRankError
from proxmesh.network.exits import in_words
from proxmesh.types import World

__all__ = ["announcing_failure"]


@contextlib.contextmanager
def announcing_failure(world: World) -> Iterator[None]:
    """Let the other ranks know why this one goes, if it does."""
    try:
        yield
    except LostRankError:
        raise  # they know
    except BaseException as error:
        world.announce_exit(in_words(error))
        raise
