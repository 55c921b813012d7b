"""Before anything is computed, check that all ranks were started for the same run."""

import json
import re
from collections.abc import Mapping

from proxmesh.errors import InputError
from proxmesh.network.timeouts import Watch

__all__ = ["agree"]

ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the text of an object without a name
NOTHING = "nothing"


def agree(watch: Watch, facts: Mapping[str, str]) -> None:
    """Refuse to start unless all ranks hold the same facts; name the first difference.

    Parameters
    ----------
    watch
        The other ranks.
    facts
        What this rank was started with, by a name for messages.
    """
    mine = {name: ADDRESS.sub("", value) for name, value in facts.items()}
    watch.transport.epoch += 1  # earlier notes belong to an earlier run
    everyone = [json.loads(text) for text in watch.gather(json.dumps(mine))]
    root = everyone[0]
    for rank, theirs in enumerate(everyone):
        for name in [*root, *(name for name in theirs if name not in root)]:
            here, there = (facts.get(name, NOTHING) for facts in (root, theirs))
            if here != there:
                raise InputError(
                    f"rank {rank} was started with another {name} than rank 0: "
                    f"`{_short(there)}`, not `{_short(here)}`. Start all ranks alike."
                )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
