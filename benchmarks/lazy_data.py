"""What it costs to read batches when they are drawn, with and without a thread.

    python benchmarks/lazy_data.py [--quick]

LeNet on 8 agents, batch 32, HSM-ADMM, eager, one thread for arithmetic. Four kinds of
data: a `numpy.memmap`; one compressed file for each image; such files with a random
`transform`; and such files from a disk that lets each wait for 0.3 ms. Each is read as
batches are drawn, and one batch ahead in a thread, against the same data in memory. All
take turns, so that a busy machine slows all of them alike; read the ratios. Reading
ahead hides what waits; what computes it hides only where a second core is free.
"""

import argparse
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.bench.tasks import ROUND

AGENTS, BATCH = 8, 32
SHAPE = (1, 28, 28)
WAIT = 3e-4  # seconds for each image of a slow disk


class Files:
    """One compressed file for each image."""

    def __init__(self, folder: Path, first: int, size: int, wait: float = 0.0) -> None:
        self.folder, self.first, self.size, self.wait = folder, first, size, wait

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if self.wait:
            time.sleep(self.wait)
        packed = (self.folder / f"{self.first + i}.z").read_bytes()
        pixels = np.frombuffer(bytearray(zlib.decompress(packed)), dtype=np.uint8)
        return torch.from_numpy(pixels).view(SHAPE) / 255, (self.first + i) % 10


def augmented(sample: Any, generator: torch.Generator | None) -> Any:
    """Flip half of the images, and move all of them a little."""
    image, label = sample
    if generator is None:
        return image, label
    flip, x, y = torch.randint(0, 5, (3,), generator=generator).tolist()
    if flip < 2:
        image = image.flip(-1)
    return image.roll((x - 2, y - 2), (-1, -2)), label


def problem(shards: Any) -> pm.LearningProblem:
    """LeNet on these shards."""
    torch.manual_seed(0)
    loss = nn.functional.cross_entropy
    return pm.LearningProblem(pm.models.lenet(), loss, shards, batch_size=BATCH)


def stepper(shards: Any) -> Callable[[int], float]:
    """Makes so many iterations, and returns the milliseconds of one."""
    ours = problem(shards)
    run = pm.prepare(ours, ROUND, pm.graphs.ring(AGENTS), 10**6, compile=False)
    states = [run.state]

    def go(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            states[0] = run.algorithm.step(states[0], ours, run.world)
        return (time.perf_counter() - begin) / steps * 1e3

    return go


def on_disk(folder: Path, size: int) -> dict[str, list[Any]]:
    """The same images in every form, by agent."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (AGENTS * size, *SHAPE), dtype=np.uint8) & 0xE0
    labels = np.arange(AGENTS * size) % 10
    np.save(folder / "x.npy", pixels.astype(np.float32) / 255)
    for i, image in enumerate(pixels):
        (folder / f"{i}.z").write_bytes(zlib.compress(image.tobytes()))
    x = np.load(folder / "x.npy", mmap_mode="r")
    starts = range(0, AGENTS * size, size)
    return {
        "memmap": [(x[a : a + size], labels[a : a + size]) for a in starts],
        "files": [Files(folder, a, size) for a in starts],
        "slow files": [Files(folder, a, size, WAIT) for a in starts],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="does it work?")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    size, rounds, steps = (40, 2, 2) if quick else (750, 7, 5)
    with tempfile.TemporaryDirectory() as place:
        data = on_disk(Path(place), size)
        kinds: dict[str, tuple[list[Any], Any]] = {
            "memmap": (data["memmap"], None),
            "one file per image": (data["files"], None),
            "files, transformed": (data["files"], augmented),
            "files on a slow disk": (data["slow files"], None),
        }
        ways = {"in memory": stepper(data["memmap"])}
        for kind, (shards, transform) in kinds.items():
            for way, prefetch in (("as drawn", False), ("ahead", True)):
                ways[f"{kind}: {way}"] = stepper(
                    [
                        pm.DatasetShard(
                            shard, transform=transform, lazy=True, prefetch=prefetch
                        )
                        for shard in shards
                    ]
                )
        times: dict[str, list[float]] = {name: [] for name in ways}
        for go in ways.values():
            go(steps)
        for _ in range(rounds):
            for name, go in ways.items():
                times[name].append(go(steps))
    found = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'iteration':32} {'ms':>7} {'/ in memory':>12}")
    for name, ms in found.items():
        print(f"{name:32} {ms:7.2f} {ms / found['in memory']:12.2f}")
    for kind in kinds:
        gained = found[f"{kind}: as drawn"] / found[f"{kind}: ahead"]
        print(f"{kind}: reading ahead makes an iteration {gained:.2f} x as fast")


if __name__ == "__main__":
    main()
