"""What a compressor of messages can do; a method or a link takes one as a field."""

from typing import Any, Protocol, TypeGuard, runtime_checkable

from torch import Tensor

__all__ = ["Compressor", "Packing", "packs"]


@runtime_checkable
class Compressor(Protocol):
    """Turns a vector into a short message, and says how short and how faithful it is.

    The result of `compress` is what the receiver makes of the message: both ends add
    the same numbers to what they know of each other.
    """

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """Row i: what a receiver gets to see of row i.

        Parameters
        ----------
        rows
            One vector per agent, ``[n_local, p]``.
        key
            What random numbers are drawn from, such as the iteration: a whole number or
            an int64 tensor, 0-d or ``[n_local, 1]``. The same key draws the same ones.
        """
        ...

    def contraction(self, p: int) -> float:
        """The delta in ``E |u - Q(u)|^2 <= (1 - delta) |u|^2`` for all u of p entries.

        1 is a perfect copy; 0 or less: some vectors do not get through at all.

        Parameters
        ----------
        p
            Entries of a vector.
        """
        ...

    def message_bits(self, p: int, width: int) -> float:
        """Bits of a message.

        Parameters
        ----------
        p
            Entries of a vector.
        width
            Bits of an entry as it is: 32 or 64.
        """
        ...


@runtime_checkable
class Packing(Compressor, Protocol):
    """A compressor whose messages travel as short as it says, between processes too."""

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """Row i: the message for row i, as bytes.

        Parameters
        ----------
        rows, key
            As of `compress`.
        """
        ...

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """What `compress` made of the rows, to the last bit.

        Parameters
        ----------
        payload
            What `pack` made, ``[rows, bytes]``.
        key
            The same as there.
        p
            Entries of a vector.
        dtype
            Of the rows.
        """
        ...


def packs(compressor: Compressor) -> TypeGuard[Packing]:
    """Whether its messages can be packed: `Packing`."""
    return isinstance(compressor, Packing)
