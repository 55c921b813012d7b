"""`--live`: the page of a run while it goes on, for those who know its address."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import pytest
from report.folders import write_run

from proxmesh.cli.app import app
from proxmesh.cli.live import served
from proxmesh.report.live import LivePage


def asked(address: str, path: str = "", **headers: str) -> tuple[int, bytes]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("GET", parts.path + path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def numbers(address: str) -> Any:
    status, content = asked(address, "data")
    assert status == 200
    return json.loads(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_run(tmp_path / "run", "dsgt", 0, [1.0, 0.5])
    (made / "summary.json").unlink()  # it is still running
    return made


@pytest.fixture
def live(folder: Path) -> Iterator[LivePage]:
    with LivePage([folder, folder.parent / "not there yet"]) as page:
        yield page


def test_new_rows_appear_and_the_end_is_told(folder: Path, live: LivePage) -> None:
    status, page = asked(live.address)
    assert status == 200
    assert b"connect-src 'self'" in page
    (run,) = numbers(live.address)["groups"][0]["runs"]
    assert run["columns"]["stationarity"] == [1, 0.5]
    history = pd.read_csv(folder / "history.csv")
    row = history.iloc[-1:].assign(iteration=20, stationarity=0.25)
    pd.concat([history, row]).to_csv(folder / "history.csv", index=False)
    end = time.monotonic() + 60
    while len(run["columns"]["stationarity"]) < 3 and time.monotonic() < end:
        time.sleep(0.05)
        found = numbers(live.address)
        (run,) = found["groups"][0]["runs"]
    assert run["columns"]["stationarity"] == [1, 0.5, 0.25]
    assert found["live"] is True
    told: list[Any] = []
    watcher = threading.Thread(target=lambda: told.append(_until_ended(live.address)))
    watcher.start()
    live.__exit__()
    watcher.join()
    assert told == [False]


def _until_ended(address: str) -> bool:
    """Poll as the page does, until it is told that the run has ended."""
    while True:
        is_live: bool = numbers(address)["live"]
        if not is_live:
            return is_live
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("path", "host"),
    [("/", None), ("/wrong/", None), ("/wrong/data", None), (None, "evil.example")],
)
def test_nobody_else_sees_the_numbers(
    live: LivePage, path: str | None, host: str | None
) -> None:
    parts = urlsplit(live.address)
    assert parts.hostname == "127.0.0.1"
    address = live.address if path is None else f"http://{parts.netloc}{path}"
    headers = {} if host is None else {"Host": host}
    assert asked(address, **headers) == (404, b"not found\n")


def test_files_are_not_served(live: LivePage) -> None:
    for path in ("config.toml", "../config.toml", "..%2f..", "data/"):
        assert asked(live.address, path)[0] == 404


def test_it_is_closed_at_the_end_and_one_line_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    with served([folder], True, True):
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("live: http://127.0.0.1:")
    assert time.monotonic() - begin < 2, "nobody was looking: nothing to wait for"
    with pytest.raises(ConnectionError):
        asked(line.removeprefix("live: "))


def test_a_run_that_is_served_makes_the_same_numbers(tmp_path: Path) -> None:
    task = ["run", "--dataset", "breast-cancer", "--agents", "3", "--steps", "4"]
    task += ["--quiet", "--eval-every", "1"]
    for name, more in (("plain", []), ("live", ["--live"])):
        app([*task, "--out", str(tmp_path / name), *more], standalone_mode=False)
    plain, live = (pd.read_csv(tmp_path / n / "history.csv") for n in ("plain", "live"))
    pd.testing.assert_frame_equal(
        plain.drop(columns="seconds"), live.drop(columns="seconds")
    )
    assert (tmp_path / "live" / "report.html").stat().st_size < 3_000_000
