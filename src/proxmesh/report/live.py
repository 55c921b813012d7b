"""The page of runs that go on: served to this machine alone, from their folders.

A thread answers; it reads what the runs write, and never touches the runs. Whoever asks
must know the token in the address, so that no other user of the machine, and no page in
the same browser, sees the numbers.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self, final

from proxmesh.errors import InputError
from proxmesh.report.html import data_of, page_of
from proxmesh.report.page_data import document_of, runs_group
from proxmesh.report.runs import read_run
from proxmesh.solver.folder import RunFolder

__all__ = ["LivePage"]

HOST: Final = "127.0.0.1"
NAMES: Final = (HOST, "localhost")  # a page elsewhere cannot pretend to be this machine
NUMBERS: Final = 40_000  # fewer than in a report: they are sent again and again
SHARE: Final = 0.05  # of the time that reading folders may take
SECONDS_FOR_A_LAST_LOOK: Final = 2.5
WATCHED: Final = ("history.csv", "summary.json", "config.toml", "failed.txt")


@final
class LivePage:
    """Serves the page of some run folders from a thread, until it is closed.

    Parameters
    ----------
    folders
        Those of the runs, which need not be there yet.
    labels
        The order of the methods; empty: as they come.
    """

    def __init__(self, folders: Sequence[Path], labels: Sequence[str] = ()) -> None:
        self._folders, self._labels = list(folders), list(labels)
        self._token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self._data, self._mark, self._next = b"", "", 0.0
        self._seen: dict[str, float] = {"asked": 0.0, "end": 0.0}
        self._ended = False
        try:
            self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        except OSError as error:
            raise InputError(
                f"`--live` cannot serve on {HOST}: {error.strerror}. Leave it out."
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), daemon=True
        )

    @property
    def address(self) -> str:
        """What to open in a browser on this machine."""
        return f"http://{HOST}:{self._server.server_port}/{self._token}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let a page that is open fetch the last numbers, then stop."""
        self._ended = True
        end = time.monotonic() + SECONDS_FOR_A_LAST_LOOK
        is_watched = end - self._seen["asked"] < 3 * SECONDS_FOR_A_LAST_LOOK
        while is_watched and not self._seen["end"] and time.monotonic() < end:
            time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def data(self) -> bytes:
        """The numbers so far, as JSON; read again when a run has written something.

        Reading takes a small share of the time, however long the histories are.
        """
        with self._lock:
            now, ended = time.monotonic(), self._ended
            mark = self._written(ended)
            if mark != self._mark and (now >= self._next or ended or not self._data):
                self._data, self._mark = data_of(self._document(not ended)), mark
                spent = time.monotonic() - now
                self._next = time.monotonic() + spent / SHARE
            if ended:
                self._seen["end"] = now
            return self._data

    def page(self) -> bytes:
        """The page itself, with the numbers so far."""
        return page_of(self._document(live=True)).encode("utf-8")

    def _document(self, live: bool) -> dict[str, Any]:
        begun = [folder for folder in self._folders if RunFolder(folder).is_begun()]
        runs = []
        for folder in begun:
            with suppress(InputError):  # half a row, while it is being written
                runs.append(read_run(folder, unended=True))
        order = {label: place for place, label in enumerate(self._labels)}
        runs.sort(key=lambda run: order.get(run.label, 0))
        return document_of([runs_group(runs, numbers=NUMBERS)], live=live)

    def _written(self, ended: bool) -> str:
        """Changes whenever a run has written something."""
        found = [str(ended)]
        for folder in self._folders:
            for name in WATCHED:
                try:
                    known = (folder / name).stat()
                except OSError:
                    continue
                found.append(f"{folder}/{name} {known.st_size} {known.st_mtime_ns}")
        return hashlib.sha256("\n".join(found).encode()).hexdigest()

    def _answer(self, path: str, host: str) -> tuple[int, str, bytes]:
        """Status, type and content for whoever asks for a path."""
        token, _, rest = path.removeprefix("/").partition("/")
        named = host in {f"{name}:{self._server.server_port}" for name in NAMES}
        if not named or not secrets.compare_digest(
            token.encode(), self._token.encode()
        ):
            return 404, "text/plain", b"not found\n"
        self._seen["asked"] = time.monotonic()
        try:
            if rest == "":
                return 200, "text/html; charset=utf-8", self.page()
            if rest == "data":
                return 200, "application/json", self.data()
        except Exception as error:  # the run goes on, and its terminal stays clean
            return 500, "text/plain", f"{type(error).__name__}\n".encode()
        return 404, "text/plain", b"not found\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            """Answers GET, and nothing else."""

            def do_GET(self) -> None:
                path, host = self.path, self.headers.get("Host", "")
                status, kind, content = answer(path, host)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Referrer-Policy", "no-referrer")
                with suppress(ConnectionError):  # the reader has gone
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Keep the terminal for the run."""

        return Handler
