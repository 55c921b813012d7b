"""Float64 by default, so that tolerances speak of mathematics; graphs of every kind."""

from collections.abc import Iterator

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


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the tests out that take minutes, unless they are asked for by name."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if "soak" in item.keywords]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if "soak" not in item.keywords]
