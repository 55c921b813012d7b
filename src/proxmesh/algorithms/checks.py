"""The check that every algorithm makes in `init`."""

from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.types import Network

__all__ = ["require_fit"]


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
