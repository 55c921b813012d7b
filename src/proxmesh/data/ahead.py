"""Work that is done in a thread before anybody asks for it."""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar, final

__all__ = ["Ahead", "one_ahead"]

T = TypeVar("T")
P = TypeVar("P")


@final
class Task(Generic[T]):
    """One function, called in a thread that ends with it.

    A thread for each, and none that waits for more: nothing has to be closed, nothing
    is left of a run that has ended, and a process that is forked has lost nothing that
    it cannot do itself.
    """

    def __init__(self, key: Hashable, work: Callable[[], T]) -> None:
        self.key = key
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._do, name="proxmesh reads ahead")
        self._thread.start()

    def _do(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # whoever asks for the result is told
            self._error = error

    def wait(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def result(self) -> T:
        """What the function returned, or raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        if not self._found:  # this process was forked before the thread had ended
            return self._work()
        return self._found[0]


@final
class Ahead:
    """At most one piece of work under way or finished, until it is asked for.

    Whatever is asked for, the thread is waited for first: two are never at work.
    """

    def __init__(self) -> None:
        self._task: Task[Any] | None = None

    def __reduce__(self) -> Any:
        return Ahead, ()  # neither copied nor sent anywhere: a thread cannot be

    def start(self, key: Hashable, work: Callable[[], Any]) -> None:
        """Begin a piece of work, unless it has begun; another one is forgotten."""
        if self._task is None or self._task.key != key:
            self.wait()
            self._task = Task(key, work)

    def get(self, key: Hashable, work: Callable[[], T]) -> T:
        """The result of a piece of work, which is done now unless it has begun."""
        task = self._task
        if task is None:
            return work()
        task.wait()
        if task.key != key:
            return work()
        self._task = None
        found: T = task.result()
        return found

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._task is not None:
            self._task.wait()

    def stop(self) -> None:
        """Wait until nothing is under way, and forget what was found."""
        self.wait()
        self._task = None


def one_ahead(work: Callable[[P], T], things: Iterable[P]) -> Iterator[tuple[P, T]]:
    """Do the same with many things in turn; the next is under way while one is used.

    Examples
    --------
    >>> [square for _, square in one_ahead(lambda x: x * x, [1, 2, 3])]
    [1, 4, 9]
    """
    last: tuple[P, Task[T]] | None = None
    try:
        for thing in things:
            found = None if last is None else (last[0], last[1].result())
            last = thing, Task(None, lambda thing=thing: work(thing))  # type: ignore[misc]
            if found is not None:
                yield found
            del found  # it may be large
        if last is not None:
            yield last[0], last[1].result()
    finally:
        if last is not None:
            last[1].wait()
