"""What a reader needs to trust a run and to repeat it."""

import shlex
import warnings
from collections.abc import Mapping
from typing import Any

import tomli_w

from proxmesh.algorithms import ALGORITHMS, HSMADMM
from proxmesh.errors import InputError, shortened
from proxmesh.report.page_network import graph_of
from proxmesh.report.runs import FinishedRun
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import Config
from proxmesh.runs.listing import details_of
from proxmesh.solver.folder import RunFolder, without_empty
from proxmesh.solver.reading import MADE_IN_PYTHON, one_line
from proxmesh.theory import certify
from proxmesh.types import has_step_bound

__all__ = ["about_run", "task_in_words"]

LONGEST_CONFIG = 20_000  # characters


def about_run(run: FinishedRun) -> dict[str, Any]:
    """Config, versions, machine, certificate, and the command that makes it again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = details_of(RunFolder(run.folder))
    summary = _summary_of(run)
    config = tomli_w.dumps(without_empty(run.config)) if run.config else ""
    return {
        "label": run.label,
        "seed": run.seed,
        "folder": shortened(run.folder),
        "outcome": run.outcome,
        "message": run.message,
        "config": config[:LONGEST_CONFIG],
        "versions": _texts(found.versions),
        "machine": _texts(summary.get("machine")),
        "certificate": _certificate(run),
        "notes": [one_line(str(note)) for note in _list(summary.get("notes"))],
        "command": found.commands.get("run again", _in_a_program(run)),
        "check": _check(run),
    }


def task_in_words(config: Mapping[str, Any]) -> tuple[str, str]:
    """The data, and the rest of a task, as far as a config tells them."""

    def name(section: str) -> str:
        text = str(config.get(section, {}).get("name", ""))
        return shortened(text.rpartition("/")[2], 40)

    graph, agents = name("graph"), config.get("graph", {}).get("agents")
    batch, split = (
        config.get("run", {}).get("batch"),
        config.get("data", {}).get("split"),
    )
    parts = [
        name("model"),
        f"{graph} of {agents} agents" if graph and agents else graph,
        f"batch {batch}" if batch else "",
        f"{shortened(split, 40)} split" if split else "",
    ]
    return name("data"), ", ".join(filter(None, parts))


def _summary_of(run: FinishedRun) -> dict[str, Any]:
    folder = RunFolder(run.folder)
    return folder.summary() if folder.has_summary() else {}


def _certificate(run: FinishedRun) -> str:
    """Whether HSM-ADMM's steps are stable on its graph, from what its config keeps.

    The config of a run that found its constants has the curvature of the losses in it.
    Without it the network alone is judged, and so it is said.
    """
    algorithm, section = _hsm_admm_in(run.config), run.config.get("algorithm", {})
    graph = graph_of(run.config)
    if algorithm is None or graph is None:
        return ""
    measured = "smoothness" in run.config.get("run", {}).get("automatic", ())
    curvature = section.get("smoothness") if measured else 0.0
    try:
        found = certify(algorithm, graph, curvature, steps=run.config["run"]["steps"])
    except (InputError, ValueError, TypeError, KeyError, ArithmeticError):
        return ""
    told = (
        f"with the smoothness {curvature:.4g} that the run found"
        if measured
        else "for the network alone, the losses' curvature aside"
    )
    return f"{found.line}, {told}".replace("., ", ", ")


def _hsm_admm_in(config: Mapping[str, Any]) -> HSMADMM | None:
    """The method of a config; a file that somebody names there is not run."""
    section = config.get("algorithm", {})
    method = ALGORITHMS.get(section.get("name", ""))
    if method is None or method.kind is not HSMADMM:
        return None
    try:
        built = build_algorithm(Config.model_validate({"algorithm": dict(section)}))
    except (InputError, ValueError, TypeError):
        return None
    return built if isinstance(built, HSMADMM) else None


def _check(run: FinishedRun) -> str:
    """The command that certifies the constants anew, where a certificate is known."""
    method = ALGORITHMS.get(run.config.get("algorithm", {}).get("name", ""))
    kind: Any = None if method is None else method.kind
    known = kind is HSMADMM or (kind is not None and has_step_bound(kind))
    if not known or MADE_IN_PYTHON in run.config:
        return ""
    file = shlex.quote(str(run.folder / "config.toml"))
    return f"proxmesh check --config {file}"


def _in_a_program(run: FinishedRun) -> str:
    made = run.config.get(MADE_IN_PYTHON, {})
    parts = [str(made.get(key, "")) for key in ("problem", "algorithm")]
    told = ", ".join(shortened(part, 120) for part in parts if part)
    return f"pm.solve({told}, ...)" if told else ""


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, Mapping):
        return {}
    return {one_line(str(k), 40): one_line(str(v), 80) for k, v in found.items()}


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
