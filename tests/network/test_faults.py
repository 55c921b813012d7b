"""What a rank says and does when others, their launcher or the environment fail it."""

from typing import Any

import pytest
import torch

import proxmesh as pm
from proxmesh.network import timeouts
from proxmesh.network.timeouts import Watch


class Arrived:
    def wait(self, seconds: float) -> None:
        del seconds


class Alone:
    """A transport for one rank that remembers its notes, and hears given ones."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.name, self.rank, self.size, self.local_size = "fake", rank, size, size
        self.epoch = 0
        self.posted: list[str] = []
        self.heard: dict[int, str] = {}

    def link(self, peers: Any) -> Any:
        raise NotImplementedError

    def reduce(self, x: torch.Tensor, op: str) -> Arrived:
        del x, op
        return Arrived()

    def post(self, note: str) -> None:
        self.posted.append(note)

    def hang_up(self) -> None:
        pass

    def notes(self) -> dict[int, str]:
        return self.heard


def test_what_ranks_tell_one_another_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(Alone(), timeout=1)
    assert watch.gather("Zürich") == ["Zürich"]
    monkeypatch.setattr(timeouts, "MOST_TEXT", 5)
    with pytest.raises(pm.InputError, match="7 bytes about its run, but at most 5"):
        watch.gather("Zürich")
