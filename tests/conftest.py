"""Float64 by default, so that tolerances speak of mathematics; graphs of every kind."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from proxmesh import graphs

SIZES = {"random-8": 8, "hypercube": 8, "ladder": 8, "grid": 6, "torus": 9}
GRAPH_KINDS = sorted(graphs.CONSTRUCTORS)


def small_graph(kind: str) -> graphs.Graph:
    return graphs.make(kind, SIZES.get(kind, 7))


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    torch.set_num_threads(1)  # tiny tensors: a second thread only waits
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A small disk of its own, of so many kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    size = f"size={request.param}k"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the tests out that take minutes, unless they are asked for by name."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if "soak" in item.keywords]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if "soak" not in item.keywords]
