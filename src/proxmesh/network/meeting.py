"""Where the processes of torchrun meet, and who has not come.

torch's own rendezvous waits for all of them before anybody can ask who is missing, and
for ever where somebody listens at the port and says nothing.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta

from torch.distributed import (  # type: ignore[attr-defined]
    PrefixStore,
    Store,
    TCPStore,
)

from proxmesh.errors import InputError, LostRankError
from proxmesh.launchers import Launch, launched
from proxmesh.network.exits import JOIN_REMEDY

__all__ = ["meet", "open_store"]

GRACE_SECONDS = 1.0  # for torch to keep to a limit itself
LOOK_EVERY_SECONDS = 0.02
MOST_NAMED = 5  # of the ranks that are missing


def open_store(limit: timedelta) -> Store:
    """Open or reach the store at MASTER_ADDR and MASTER_PORT."""
    host = os.environ.get("MASTER_ADDR", "")
    port = os.environ.get("MASTER_PORT", "")
    if not host or not port.isdecimal():
        raise InputError(
            f"engine `torch`: MASTER_ADDR is `{host}` and MASTER_PORT is `{port}`. "
            "Start with torchrun, which sets them, or set both."
        )
    try:
        socket.getaddrinfo(host, int(port))
    except OSError as error:
        raise InputError(
            f"engine `torch`: the host name `{host}` (MASTER_ADDR) does not resolve. "
            "Use an address, or enter the name in /etc/hosts on every machine."
        ) from error
    try:
        store = _within(limit, lambda: _store(host, int(port), limit))
    except (RuntimeError, OSError) as error:  # torch's DistNetworkError among them
        raise InputError(_store_trouble(error, host, port, limit)) from error
    return PrefixStore("proxmesh", store)


def meet(store: Store, launch: Launch, limit: timedelta) -> Store:
    """Wait until all ranks are here; return a part of the store for this start only.

    The store of torchrun outlives a restart, with everything that earlier processes
    have left in it. So each process comes with a name of its own, the root answers to
    that name, and only who has heard the root counts as here.

    Parameters
    ----------
    store
        Shared by all ranks, and perhaps by earlier ones.
    launch
        Which rank this is, of how many.
    limit
        How long to wait for the others.
    """
    name = uuid.uuid4().hex
    store.set(f"name/{launch.rank}", name)
    if launch.rank == 0:
        missing = _missing(store, name, launch.size, limit)
        store.set(f"{name}/missing", " ".join(map(str, missing)))
        meeting = name
    else:
        try:
            store.wait([f"answer/{name}"], limit)
        except RuntimeError as error:  # torch's DistStoreError among them
            raise _not_here([0], launch.size, limit) from error
        meeting = store.get(f"answer/{name}").decode()
        store.set(f"{meeting}/here/{launch.rank}", "")
        try:
            store.wait([f"{meeting}/missing"], limit + timedelta(seconds=GRACE_SECONDS))
        except RuntimeError as error:
            raise _not_here([0], launch.size, limit) from error
        missing = [int(rank) for rank in store.get(f"{meeting}/missing").split()]
    if missing:
        raise _not_here(missing, launch.size, limit)
    return PrefixStore(meeting, store)


def _missing(store: Store, meeting: str, size: int, limit: timedelta) -> list[int]:
    """Answer everyone who comes; the ranks from whom nothing was heard in time."""
    missing = set(range(1, size))
    answered = set()
    deadline = time.monotonic() + limit.total_seconds()
    while missing and time.monotonic() < deadline:
        for rank in sorted(missing):
            if store.check([f"{meeting}/here/{rank}"]):
                missing.remove(rank)
            elif store.check([f"name/{rank}"]):
                name = store.get(f"name/{rank}").decode()
                if name not in answered:  # it may be of an earlier start
                    store.set(f"answer/{name}", meeting)
                    answered.add(name)
        time.sleep(LOOK_EVERY_SECONDS)
    return sorted(missing)


def _not_here(missing: list[int], size: int, limit: timedelta) -> LostRankError:
    named = [f"rank {rank}" for rank in missing[:MOST_NAMED]]
    if len(missing) > MOST_NAMED:
        named.append(f"{len(missing) - MOST_NAMED} more")
    who = f"{' and '.join(named)} of {size} ranks"
    return LostRankError(
        f"{who} did not join within {limit.total_seconds():g} s", JOIN_REMEDY
    )


def _store(host: str, port: int, limit: timedelta) -> Store:
    """The store of torchrun's agent, or one that rank 0 opens for all."""
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    launch = launched()
    return TCPStore(
        host,
        port,
        launch.size,
        is_master=launch.rank == 0 and not agent,
        timeout=limit,
        wait_for_workers=False,
        multi_tenant=not agent,
    )


def _within(limit: timedelta, call: Callable[[], Store]) -> Store:
    """Call it in a thread, which is left behind if it does not return in time."""
    found: Future[Store] = Future()

    def attempt() -> None:
        try:
            found.set_result(call())
        except (RuntimeError, OSError) as error:
            found.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    return found.result(limit.total_seconds() + GRACE_SECONDS)


def _store_trouble(error: Exception, host: str, port: str, limit: timedelta) -> str:
    text = str(error)
    if "EADDRINUSE" in text or "in use" in text:
        return (
            f"engine `torch`: port {port} (MASTER_PORT) is in use. Choose another with "
            "`torchrun --master-port`, or let `torchrun --standalone` find a free one."
        )
    return (
        f"engine `torch`: `{host}:{port}` did not answer within "
        f"{limit.total_seconds():g} s. Start rank 0 there, and check names and "
        "firewalls with `proxmesh doctor`."
    )
