"""Tell the other ranks why this one goes."""

import contextlib
from collections.abc import Iterator

from proxmesh.errors import InputError, LostRankError
from proxmesh.types import World

__all__ = ["announcing_failure"]


@contextlib.contextmanager
def announcing_failure(world: World) -> Iterator[None]:
    """Let the other ranks know why this one goes, if it does."""
    try:
        yield
    except LostRankError:
        raise  # they know
    except InputError:  # whose message may quote private data
        world.announce_exit("InputError, see its own message")
        raise
    except BaseException as error:
        world.announce_exit(f"{type(error).__name__}: {error}")
        raise
