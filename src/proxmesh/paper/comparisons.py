"""Which runs the figures are drawn from: tasks, methods, constants and sizes.

`proxmesh paper` makes the runs, `figures` draws them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import unknown
from proxmesh.paper.survival import CONDITIONS, GROWING, METHODS, suits
from proxmesh.paper.tasks import TASKS
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import last_rows
from proxmesh.runs.build import build
from proxmesh.runs.compare import Plan, planned, single_threaded
from proxmesh.runs.config import Config, load_config
from proxmesh.runs.presets import Parameters, changed, load_parameters
from proxmesh.runs.record import written_down

__all__ = [
    "COMPARISONS",
    "HUB_RULES",
    "PAPERS_RULE",
    "SCALES",
    "SERVER",
    "UNTUNED",
    "Comparison",
    "Scale",
    "Size",
]

Scale: TypeAlias = Literal["small", "standard", "full"]
SCALES: tuple[Scale, ...] = get_args(Scale)


@final
@dataclass(frozen=True, slots=True)
class Size:
    """How much of a comparison is run."""

    seeds: int
    steps: int
    evaluations: int
    methods: int | None = None  # the first so many


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods x seeds on one task."""

    title: str
    task: Mapping[str, Any]  # dotted keys of a config
    labels: tuple[str, ...]
    preset: str
    small: Size
    standard: Size
    full: Size  # as in the papers
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    automatic: bool = False  # HSM-ADMM finds its constants, whatever the preset has

    def size(self, scale: str) -> Size:
        """How much is run at this scale."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        sizes = {"small": self.small, "standard": self.standard, "full": self.full}
        return sizes[scale]

    def config(self, scale: str, data_dir: str | None = None) -> Config:
        """The task at this scale; the method and the seed are still open."""
        size = self.size(scale)
        flags = {
            "run.steps": size.steps,
            "run.eval_every": max(1, size.steps // size.evaluations),
            "data.dir": data_dir,
        }
        return load_config(None, {**self.task, **flags})

    def parameters(self) -> Parameters:
        """The constants of every label."""
        known = load_parameters(self.preset)
        return changed(
            known.left_automatic() if self.automatic else known, self.variants
        )

    def plan(self, scale: str, folder: Path, data_dir: str | None = None) -> Plan:
        """Its runs at this scale, in this folder."""
        task = build(single_threaded(self.config(scale, data_dir))).tree()
        size = self.size(scale)
        labels = self.labels[: size.methods]
        return planned(task, labels, range(size.seeds), self.parameters(), folder)

    def write(
        self, name: str, scale: str, runs: Sequence[FinishedRun], folder: Path
    ) -> None:
        """Keep what repeats it, its task and constants, and the last rows of its runs.

        `proxmesh compare --config NAME-task.toml --params NAME-methods.toml` makes the
        same runs.
        """
        folder.mkdir(exist_ok=True)
        task, methods = written_down(
            self.config(scale).tree(), self.parameters(), self.labels
        )
        (folder / f"{name}-task.toml").write_text(task)
        (folder / f"{name}-methods.toml").write_text(methods)
        last_rows(runs).to_csv(folder / f"{name}-runs.csv", index=False)


PAPER = tuple(name for name, method in ALGORITHMS.items() if method.in_paper)
OTHERS = (
    "d-psgd",
    "dsgt",
    "prox-gt-sa",
    "deepstorm-v1",
    "prox-dasa",
    "prox-dasa-gt",
)
SERVER = ("prox-sgd", "prox-storm")

A9A = {
    "data.name": "a9a",
    "model.name": "mlp",
    "run.batch": 64,
    "regularizer.weight": 1e-4,
}
MNIST = {**A9A, "data.name": "mnist", "model.name": "lenet", "run.batch": 32}

PAPERS_RULE = "papers-rule"
ABLATIONS = ("hsm-admm-uniform", "hsm-admm-blind")
UNTUNED = (
    *(n for n, m in ALGORITHMS.items() if not m.server and n not in ABLATIONS),
    PAPERS_RULE,
)

HUB_RULES = ("own-tuned", "largest-tuned", "own-ring", "largest-ring", "none-ring")


def _hub(title: str, preset: str, graph: str, agents: int, **more: Any) -> Comparison:
    """One graph with hubs: three rules for the step, tuned there or on the ring."""
    ring = dict(load_parameters("a9a-ring").methods["hsm-admm"])
    tuned = load_parameters(preset).methods
    uniform = {"algorithm": "hsm-admm-uniform"}
    return Comparison(
        title=title,
        task={**A9A, "graph.name": graph, "graph.agents": agents, **more},
        labels=HUB_RULES,
        preset=preset,
        variants={
            "own-tuned": {"algorithm": "hsm-admm", **tuned["hsm-admm"]},
            "largest-tuned": {**uniform, **tuned["hsm-admm-uniform"]},
            "own-ring": {"algorithm": "hsm-admm", **ring},
            "largest-ring": {**uniform, **ring},
            "none-ring": {"algorithm": "hsm-admm-blind", **ring},
        },
        small=Size(seeds=1, steps=40, evaluations=8),
        standard=Size(seeds=3, steps=2000, evaluations=50),
        full=Size(seeds=10, steps=10_000, evaluations=100),
    )


def _noniid(title: str, preset: str, split: str, **more: Any) -> Comparison:
    """The ring of the first experiment with data that differ from agent to agent."""
    return Comparison(
        title=title,
        task={**A9A, "graph.name": "ring", "data.split": split, **more},
        labels=(*PAPER, *OTHERS, *SERVER),
        preset=preset,
        small=Size(seeds=1, steps=100, evaluations=10, methods=4),
        standard=Size(seeds=3, steps=2000, evaluations=40),
        full=Size(seeds=10, steps=10_000, evaluations=100),
    )


def _untuned(title: str) -> Comparison:
    """Every method at its defaults, and HSM-ADMM with its paper's rule."""
    long = TASKS[title]["model.name"] != "lenet"
    papers_form = ALGORITHMS["hsm-admm"].papers_form
    return Comparison(
        title=title,
        task={**TASKS[title], "run.kkt": False},
        labels=UNTUNED,
        preset="defaults",
        variants={PAPERS_RULE: {"algorithm": "hsm-admm", **papers_form}},
        small=Size(seeds=1, steps=8, evaluations=2, methods=1),
        standard=Size(seeds=1, steps=1000 if long else 300, evaluations=2),
        full=Size(seeds=5, steps=3000 if long else 1500, evaluations=10),
    )


def _on_links(condition: str) -> Comparison:
    """Methods whose constants are tuned for a9a, over the same imperfect links."""
    links = CONDITIONS[condition]
    known = load_parameters("a9a-ring").methods
    tuned = dict(known["hsm-admm"])
    labels = [m for m in METHODS if (m in known or m == GROWING) and suits(m, links)]
    return Comparison(
        title=f"a9a, MLP, ring of 8 agents, batch 64, links: {condition}",
        task={
            **A9A,
            "graph.name": "ring",
            "run.kkt": False,
            **{f"links.{name}": value for name, value in links.items()},
        },
        labels=tuple(labels),
        preset="a9a-ring",
        variants={GROWING: {"algorithm": "hsm-admm", **tuned}},
        automatic=True,
        small=Size(seeds=1, steps=4, evaluations=2, methods=1),
        standard=Size(seeds=1, steps=200, evaluations=4),
        full=Size(seeds=3, steps=2000, evaluations=8),
    )


def _comparisons() -> dict[str, Comparison]:
    ring = Comparison(
        title="a9a, MLP, ring of 8 agents, batch 64",
        task={**A9A, "graph.name": "ring"},
        labels=(*PAPER, *OTHERS, "prox-gt-sr-e", *SERVER),
        preset="a9a-ring",
        small=Size(seeds=1, steps=100, evaluations=10),
        standard=Size(seeds=5, steps=5000, evaluations=100),
        full=Size(seeds=10, steps=10_000, evaluations=100),
    )
    mnist = Comparison(
        title="MNIST, LeNet, random graph of 8 agents, batch 32",
        task={**MNIST, "graph.name": "random-8", "run.kkt": False},
        labels=(*PAPER, "d-psgd", "prox-dasa"),
        preset="mnist-random-8",
        small=Size(seeds=1, steps=10, evaluations=1),
        standard=Size(seeds=2, steps=1500, evaluations=6),
        full=Size(seeds=5, steps=25_000, evaluations=200),
    )
    four_bits = Comparison(
        title="a9a, MLP, ring of 8 agents, batch 64, messages of 4 bits per entry",
        task={**A9A, "graph.name": "ring", "links.bits": 4, "run.kkt": False},
        labels=("hsm-admm", "automatic"),
        preset="a9a-ring",
        variants={"automatic": {"algorithm": "hsm-admm"}},
        small=Size(seeds=1, steps=100, evaluations=10),
        standard=Size(seeds=5, steps=600, evaluations=12),
        full=Size(seeds=10, steps=10_000, evaluations=100),
    )
    on_links = {f"links-{condition}": _on_links(condition) for condition in CONDITIONS}
    return {
        **on_links,
        "ring-a9a": ring,
        "ring-a9a-4-bits": four_bits,
        "random-mnist": mnist,
        "hubs-star-8": _hub("star of 8", "a9a-star", "star", 8),
        "hubs-star-32": _hub("star of 32", "a9a-star-32", "star", 32),
        "hubs-star-128": _hub("star of 128", "a9a-star-128", "star", 128),
        "hubs-barabasi-albert-32": _hub(
            "Barabási-Albert, 32 agents",
            "a9a-barabasi-albert-32",
            "barabasi-albert",
            32,
            **{"graph.seed": 1},
        ),
        "noniid-by-label": _noniid(
            "sorted by label, tuned there", "a9a-ring-by-label", "by-label"
        ),
        "noniid-dirichlet": _noniid(
            "Dirichlet(0.1), the constants of sorted data",
            "a9a-ring-by-label",
            "dirichlet",
            **{"data.alpha": 0.1},
        ),
        "noniid-moved": _noniid(
            "sorted by label, the constants of even data", "a9a-ring", "by-label"
        ),
        "rate": Comparison(
            title="a9a, MLP, ring of 8 agents, batch 64",
            task={**A9A, "graph.name": "ring"},
            labels=("automatic", "round", "hsm-admm"),
            preset="a9a-ring",
            variants={
                "automatic": {"algorithm": "hsm-admm", "follow": False},
                "round": {
                    "algorithm": "hsm-admm",
                    "c_rho": 0.25,
                    "c_eta": 0.5,
                    "c_a": 1.0,
                },
            },
            small=Size(seeds=1, steps=120, evaluations=40),
            standard=Size(seeds=5, steps=10_000, evaluations=200),
            full=Size(seeds=10, steps=100_000, evaluations=1000),
        ),
        **{
            "untuned-" + re.sub(r"\W+", "-", title).lower(): _untuned(title)
            for title in TASKS
        },
    }


COMPARISONS: Mapping[str, Comparison] = _comparisons()
"""Every set of runs by its name."""
