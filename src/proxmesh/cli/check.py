"""`proxmesh check`: will it diverge? Before a run, and without one."""

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console, show_notices
from proxmesh.cli.options import TaskOptions, describes_a_task
from proxmesh.errors import InputError

if TYPE_CHECKING:
    from proxmesh.theory import Certificate, StepCertificate

__all__ = ["check", "print_verdict"]

COLORS = {"stable": "green", "unstable": "red", "not certified": "yellow"}
EXIT_CODES = {"stable": 0, "not certified": 0, "unstable": 4}


@describes_a_task(
    "target", "patience", "epochs", "eval", "eval_every", "compile", "monitor",
    "asynchronous", "max_staleness",
)  # fmt: skip
def check(
    task: TaskOptions,
    algorithm: Annotated[str | None, typer.Option(help="Method [hsm-admm].")] = None,
    smoothness: Annotated[
        float | None,
        typer.Option(help="Largest curvature of the losses [measured on the data]."),
    ] = None,
    curvature: Annotated[
        float | None,
        typer.Option(help="Lowest curvature of the losses [measured, or 0]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> int:
    """Certify constants on a graph before a run: stable, unstable, not certified."""
    show_notices()
    from proxmesh.runs.build import build, build_algorithm, build_graph
    from proxmesh.theory import certify

    config = task.config({"algorithm.name": algorithm})
    if smoothness is not None:  # a question about graph and constants: no data needed
        with config.building("algorithm"):
            method = build_algorithm(config)
        with config.building("graph"):
            graph = build_graph(config)
        found = certify(
            method, graph, smoothness, curvature=curvature, steps=config.run.steps
        )
        measured = ""
    elif curvature is not None:
        raise InputError(
            "`--curvature` goes with `--smoothness`. Give both, or none to have them "
            "measured."
        )
    else:
        run = build(config).prepare()
        certificate = run.certificate()
        if certificate is None:
            raise InputError(
                "`proxmesh check` knows HSM-ADMM and methods with a known bound on "
                f"their step, got `{config.algorithm.name}`, which has no certificate."
            )
        found, measured = certificate, str(run.settled)
    if as_json:
        console.print_json(json.dumps(_finite(dataclasses.asdict(found))))
    else:
        _print(found, measured)
    return EXIT_CODES[found.verdict]


def _print(found: "Certificate | StepCertificate", measured: str) -> None:
    from proxmesh.theory import StepCertificate

    if measured:
        console.print(measured)
    if isinstance(found, StepCertificate):
        _print_facts(_facts_of_steps(found))
    else:
        _print_facts(_facts(found))
    print_verdict(found)


def _print_facts(shown: dict[str, str]) -> None:
    for name, value in shown.items():
        console.print(f"{name:28}{value}", highlight=False)


def _facts_of_steps(found: "StepCertificate") -> dict[str, str]:
    return {
        "graph": found.graph,
        "method": str(found.algorithm),
        found.parameter: f"{found.value:.4g}",
        "limit, h = 0": f"{found.limit_smooth:.4g}",
        "limit, worst prox": f"{found.limit:.4g}",
        "smoothness of the losses": f"{found.smoothness:.3g}",
        "lowest curvature": f"{found.curvature:.3g}",
        "margin": f"{found.margin:.3g}",
    }


def _facts(found: "Certificate") -> dict[str, str]:
    constants = ("c_rho", "c_eta", "c_a", "smoothness")
    values = [(name, getattr(found.algorithm, name)) for name in constants]
    return {
        "graph": found.graph,
        "constants": ", ".join(f"{n} {v:.4g}" for n, v in values if v is not None),
        "c_eta / c_rho": f"{found.ratio:.4g}",
        "threshold, h = 0": f"{found.threshold_smooth:.4g}",
        "threshold, worst prox": f"{found.threshold:.4g}",
        "enough on every graph": "none, with an assumed degree"
        if found.graph_free is None
        else f"{found.graph_free:g}",
        "smoothness": f"{found.smoothness:.3g}",
        "lowest curvature": f"{found.curvature:.3g}",
        "margin": f"{found.margin:.3g}, least at k = {found.worst_k:g}",
        "certified from k": "never"
        if found.certified_from is None
        else f"{found.certified_from:,}",
        "least stable c_eta": f"{found.stable_c_eta:.4g}",
        "contraction": f"{found.contraction:.4f} of the disagreement at the last k",
        "gain over one step for all": f"{found.gain:.2f} x, predicted, L_f aside",
    }


def print_verdict(found: "Certificate | StepCertificate", verbose: bool = True) -> None:
    """The certificate in one line, its first words in color.

    Without `verbose` the line is about the steps alone: the losses of every neural
    network curve down somewhere, which certifies nothing and harms nothing.
    """
    from rich.text import Text

    text = str(found) if verbose else found.line
    verdict, _, rest = text.partition(":")
    short = "stable" if verdict.startswith("stable") else found.verdict
    console.print(Text.assemble((verdict, COLORS[short]), ":", rest))


def _finite(tree: dict[str, object]) -> dict[str, object]:
    """JSON has no infinity."""
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in tree.items()
    }
