"""The checks that every algorithm makes: of its options, and in `init`."""

from functools import wraps
from inspect import signature
from typing import Any

from torch import Tensor

from proxmesh.errors import InputError, unknown
from proxmesh.types import Network

__all__ = ["require_fit", "say_options"]


def say_options(method: type[Any]) -> None:
    """Have a method's class name its options when it is given one that it lacks.

    Parameters
    ----------
    method
        A class, which is changed. Called a second time it changes nothing.

    Examples
    --------
    >>> import proxmesh as pm
    >>> pm.DPSGD(lr=0.1)
    Traceback (most recent call last):
    proxmesh.errors.InputError: unknown option `lr` of DPSGD. Known: alpha, ...
    """
    made: Any = vars(method)["__init__"]
    if "__wrapped__" in vars(made):
        return
    known = [*signature(made).parameters][1:]

    @wraps(made)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        for name in options:
            if name not in known:
                raise unknown("option", name, known, of=method.__name__)
        made(self, *args, **options)

    method.__init__ = checked


def require_fit(x0: Tensor, network: Network, name: str = "x0") -> None:
    """Refuse initial rows that do not belong to this network."""
    rows, dtype = len(network.degree), network.degree.dtype
    if x0.ndim != 2 or len(x0) != rows:
        raise InputError(
            f"`{name}` has shape {tuple(x0.shape)} but this process holds {rows} "
            f"agents; expected ({rows}, p)."
        )
    if x0.dtype != dtype or x0.device != network.degree.device:
        raise InputError(
            f"`{name}` is {x0.dtype} on {x0.device} but the network is {dtype} on "
            f"{network.degree.device}. Use `connect(graph, dtype=x0.dtype, "
            f"device=x0.device)`."
        )
    if not bool(x0.isfinite().all()):
        agent = int((~x0.isfinite()).any(1).nonzero()[0])
        raise InputError(f"`{name}` is not finite in row {agent}.")
