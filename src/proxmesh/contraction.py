"""Does a compressor let something of every vector through? Without it nothing works."""

import torch

from proxmesh.errors import InputError
from proxmesh.types import Compressor

__all__ = ["require_contractive"]

PROBES = (1e-3, 1.0, 1e3)  # sizes of the vectors that a compressor is tried on
LONGEST = 1000  # entries of these vectors
NOTHING = 1e-6  # of the squared size of such a vector
DRAWS = 16  # of random numbers, for a compressor that uses them


def require_contractive(who: str, compressor: Compressor, p: int) -> None:
    """Refuse a compressor that may let nothing of a vector through.

    What it declares is checked, and that it is so on a few vectors.

    Parameters
    ----------
    who
        Complains.
    compressor
        To be used for vectors of p entries.
    p
        Number of entries.

    Examples
    --------
    >>> from proxmesh.compressors import Bits
    >>> require_contractive("CDProxSGT", Bits(3, stochastic=True), 1000)
    Traceback (most recent call last):
    proxmesh.errors.InputError: CDProxSGT: `compressor` is not contractive for 1,000 ...
    """
    delta = compressor.contraction(p)
    if not 0 < delta <= 1:
        raise InputError(
            f"{who}: `compressor` is not contractive for {p:,} parameters: "
            f"{compressor} has delta = {delta:.3g}, which must be above 0. Send more "
            "bits or entries."
        )
    shape = torch.linspace(1, 40, min(p, LONGEST), dtype=torch.float64).sin()[None]
    for size in PROBES:
        rows = size * shape
        lost = [
            float((rows - compressor.compress(rows, key)).square().sum())
            for key in range(DRAWS)
        ]
        kept = 1 - sum(lost) / len(lost) / float(rows.square().sum())
        if not kept > NOTHING:
            raise InputError(
                f"{who}: `compressor` is not contractive: of a vector with entries of "
                f"about {size:g}, {compressor} lets nothing through. It must scale "
                "with the vector."
            )
