"""End a rank whose launcher is gone: nobody else would, and it would train for ever.

The kernel could do it (PR_SET_PDEATHSIG), but on Linux only, and also when merely the
thread that has started us ends, which some launchers' threads do.
"""

import os
import threading
import time
from contextlib import suppress

from proxmesh.launchers import launched
from proxmesh.network.exits import EXIT_LOST_RANK

__all__ = ["end_with_launcher"]

LOOK_EVERY_SECONDS = 0.25


def end_with_launcher() -> None:
    """Watch the launcher from now on, and end this process as soon as it has gone.

    Ranks that were started by hand, with RANK and WORLD_SIZE, may outlive their shell.
    """
    launch = launched()
    by_hand = launch.engine == "torch" and "TORCHELASTIC_RUN_ID" not in os.environ
    if launch.engine == "simulated" or by_hand:
        return
    arguments = launch.launcher, launch.rank, os.getppid()
    threading.Thread(
        target=_watch, args=arguments, daemon=True, name="launcher"
    ).start()


def _watch(launcher: str, rank: int, parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_SECONDS)
    with suppress(OSError):  # who read it may be gone, too
        words = f"proxmesh: rank {rank} ends: {launcher}, which started it, is gone.\n"
        os.write(2, words.encode())
    os._exit(EXIT_LOST_RANK)
