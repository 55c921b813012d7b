"""What an asynchronous run cannot do, said before anything is computed."""

from typing import Any

from proxmesh.errors import InputError
from proxmesh.network.links import Delay, Speeds
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.types import World, counts_steps

__all__ = ["require_asynchronous", "require_asynchronous_world"]


def require_asynchronous(settings: Settings, hooks: Hooks, state: Any) -> None:
    """Refuse options that need ranks to wait for each other."""
    if not settings.asynchronous:
        return
    if settings.compile == "on":
        raise InputError(
            "`asynchronous` runs are not compiled: agents step one at a time. Leave "
            "`compile` out."
        )
    if settings.monitor is not None:
        raise InputError(
            f"the monitor `{settings.monitor}` compares consecutive iterations of all "
            "agents, which an asynchronous run does not have. Leave one of them out."
        )
    for model in hooks.links:
        if not isinstance(model, Speeds | Delay):
            raise InputError(
                f"`links`: {type(model).__name__} does not go with `asynchronous`; "
                "Speeds and Delay do. Leave it out."
            )
    if state is not None and not counts_steps(state):
        raise InputError(
            f"`state` is a {type(state).__name__}, not one of an asynchronous run. "
            "Begin anew, or leave `asynchronous` out."
        )


def require_asynchronous_world(settings: Settings, hooks: Hooks, world: World) -> None:
    """Refuse one process without speeds, and models of links on real ones."""
    if not settings.asynchronous:
        return
    if world.distributed:
        if hooks.links:
            raise InputError(
                f"`links`: {type(hooks.links[0]).__name__} is for simulated time, but "
                f"engine `{world.engine}` has real ranks. Leave `links` out."
            )
        return
    if not any(isinstance(model, Speeds) for model in hooks.links):
        raise InputError(
            "`asynchronous` in one process needs the speeds of the agents: `--link "
            "speeds=1:4` (`links=[pm.links.Speeds([1, 4])]`). Or start ranks with "
            "mpiexec or torchrun."
        )
