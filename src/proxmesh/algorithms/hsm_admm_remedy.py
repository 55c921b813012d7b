"""What to change after HSM-ADMM has diverged."""

from typing import Any

__all__ = ["GRAPH_FREE_RATIO", "remedy_for"]

GRAPH_FREE_RATIO = 1.5
"""c_eta / c_rho from which every graph is stable, the smoothness of f aside."""


def remedy_for(algorithm: Any) -> str:
    """In a sentence or two, for an `HSMADMM` with these constants."""
    if algorithm.assumed_degree is not None:
        return (
            f"All agents assume degree {algorithm.assumed_degree}: leave "
            "`assumed_degree` out, so that each uses its own."
        )
    if algorithm.follows:
        return "Take a larger minibatch, or give `c_rho`, `c_eta` and `c_a`."
    if algorithm.missing:
        return "Give `c_rho`, `c_eta` and `c_a`."
    c_rho, c_eta, c_a = (algorithm.constants[n] for n in ("c_rho", "c_eta", "c_a"))
    if c_eta < GRAPH_FREE_RATIO * c_rho:
        return (
            f"c_eta / c_rho is {c_eta / c_rho:.3g}; from "
            f"{GRAPH_FREE_RATIO} on every graph is stable: raise `c_eta` to "
            f"{GRAPH_FREE_RATIO * c_rho:.3g} or more. The losses may need a larger "
            "one, which `proxmesh check` finds."
        )
    return (
        "The step is too long for this loss: double `c_rho` and `c_eta` together "
        f"(now {c_rho:g} and {c_eta:g}), or raise `c_a` (now {c_a:g})."
    )
