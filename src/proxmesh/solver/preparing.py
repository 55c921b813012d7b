"""What happens before iteration 0, told to who watches."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

__all__ = ["WatchesPreparation", "telling"]


@runtime_checkable
class WatchesPreparation(Protocol):
    """An observer that is also told what happens before the first iteration."""

    def on_prepare(self, what: str, seconds: float | None) -> None:
        """Something begins, or has ended after so many seconds.

        Parameters
        ----------
        what
            ``"opening data"``, ``"finding constants"`` or ``"compiling"``.
        seconds
            None when it begins.
        """
        ...


@contextmanager
def telling(observer: object, what: str) -> Iterator[None]:
    """Tell an observer that listens when this begins and when it has ended.

    Examples
    --------
    >>> class Printing:
    ...     def on_prepare(self, what, seconds):
    ...         print(what, "..." if seconds is None else "done")
    >>> with telling(Printing(), "opening data"):
    ...     print("reading")
    opening data ...
    reading
    opening data done
    """
    if not isinstance(observer, WatchesPreparation):
        yield
        return
    observer.on_prepare(what, None)
    begin = time.perf_counter()
    yield
    observer.on_prepare(what, time.perf_counter() - begin)
