"""Several hosts on one machine: namespaces with addresses and links of their own.

For tests and benchmarks of what crosses a network. Needs Linux, the right to create
namespaces (root) and iproute2.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import final

__all__ = ["Hosts", "why_not"]

# Enter a host: its network, its name, and a hosts file that knows all names.
RETRANSMISSIONS = 5  # 13 s; the kernel's 15 keep a dead link for a quarter of an hour
ENTER = 'mount --bind "$0" /etc/hosts; hostname "$1"; shift; exec "$@"'


def why_not() -> str | None:
    """Why hosts cannot be made here; None if they can."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"the program `{program}` is missing (Debian: iproute2, util-linux)"
    name = f"pm-try-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(
        ["ip", "netns", "add", name], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"namespaces are not permitted: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return None


@final
class Hosts:
    """A few hosts on one switch: `host0` 10.77.0.1, `host1` 10.77.0.2, ..."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self.folder = folder
        self._token = uuid.uuid4().hex[:6]
        self._switch = f"pm-{self._token}-switch"
        self.names = [f"host{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]

    def __enter__(self) -> "Hosts":
        self._ip("netns", "add", self._switch)
        self._on(self._switch, "link", "add", "switch", "type", "bridge")
        self._on(self._switch, "link", "set", "switch", "up")
        for i, address in enumerate(self.addresses):
            host = self._space(i)
            self._ip("netns", "add", host)
            port = f"port{i}"
            ends = ["type", "veth", "peer", "name", "eth0", "netns", host]
            self._on(self._switch, "link", "add", port, *ends)
            self._on(self._switch, "link", "set", port, "master", "switch", "up")
            self._on(host, "addr", "add", f"{address}/24", "dev", "eth0")
            self._on(host, "link", "set", "eth0", "up")
            self._on(host, "link", "set", "lo", "up")
            self._set(host, "net.ipv4.tcp_retries2", RETRANSMISSIONS)
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{a} {n}" for a, n in zip(self.addresses, self.names, strict=True)]
        self._table.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self._write_agent()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for space in [*map(self._space, range(self.count)), self._switch]:
            self._end_all_in(space)
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def command(self, host: int, words: Sequence[str]) -> list[str]:
        """What to run so that these words run on a host."""
        inside = ["unshare", "--uts", "--mount", "sh", "-c", ENTER]
        place = [str(self._table), self.names[host]]
        return ["ip", "netns", "exec", self._space(host), *inside, *place, *words]

    @property
    def agent(self) -> Path:
        """A stand-in for ssh, `agent HOST COMMAND...`, for mpiexec's plm_ssh_agent."""
        return self.folder / "agent"

    def bytes_sent(self, host: int) -> int:
        """What the interface of a host has sent so far."""
        shown = self._on(self._space(host), "-s", "-j", "link", "show", "eth0")
        sent: int = json.loads(shown)[0]["stats64"]["tx"]["bytes"]
        return sent

    def cut(self, host: int) -> None:
        """Pull the plug of a host: packets vanish, nobody is told."""
        self._on(self._switch, "link", "set", f"port{host}", "down")

    @property
    def _table(self) -> Path:
        return self.folder / "hosts"

    def _write_agent(self) -> None:
        cases = []
        for i, address in enumerate(self.addresses):
            entered = shlex.join(self.command(i, ["sh", "-c"]))
            cases.append(f'{self.names[i]}|{address}) exec {entered} "$*" ;;')
        script = ["#!/bin/sh", "host=$1; shift", 'case "$host" in', *cases, "esac", ""]
        self.agent.write_text("\n".join(script))
        self.agent.chmod(0o755)

    def _space(self, host: int) -> str:
        return f"pm-{self._token}-{host}"

    def _on(self, space: str, *words: str) -> str:
        return self._ip("-n", space, *words)

    @staticmethod
    def _ip(*words: str) -> str:
        done = subprocess.run(
            ["ip", *words], check=True, capture_output=True, text=True
        )
        return done.stdout

    @staticmethod
    def _set(space: str, name: str, value: int) -> None:
        words = ["ip", "netns", "exec", space, "sh", "-c"]
        file = f"/proc/sys/{name.replace('.', '/')}"
        subprocess.run([*words, f"echo {value} > {file}"], check=True)

    def _end_all_in(self, space: str) -> None:
        found = subprocess.run(
            ["ip", "netns", "pids", space], capture_output=True, text=True, check=False
        )
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
