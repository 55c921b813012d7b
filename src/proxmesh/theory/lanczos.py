"""Both ends of the spectra of symmetric matrices that are known by their products."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proxmesh.theory.products import Product

__all__ = ["FIRST_PRODUCTS", "extremes", "extremes_in_few_rows"]

DOUBLE = torch.float64
EXHAUSTED = (
    1e-6  # of the largest diagonal entry: what is left of a direction is rounding
)
FIRST_PRODUCTS = 2  # that turn a random direction into a sharp one


def extremes(
    product: Product, u: Tensor, products: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest and smallest Ritz value of every row, and the unit vector of the largest.

    Lanczos with full orthogonalization: all rows at once, each with its own matrix.
    """
    basis, diagonal, beside = [u], [], []
    for j in range(products):
        image = product(basis[-1])
        diagonal.append((image * basis[-1]).sum(1))
        for _ in range(2):  # twice is enough, for any rounding
            for q in basis:
                image = image - (image * q).sum(1, keepdim=True) * q
        length = image.norm(dim=1, keepdim=True)
        if j + 1 < products:
            # A row whose Krylov space is exhausted goes on with zeros.
            largest = torch.stack(diagonal).abs().amax(0)[:, None]
            small = length <= EXHAUSTED * largest
            beside.append(torch.where(small, 0, length)[:, 0])
            basis.append(torch.where(small, 0, image / length))
    used = torch.stack(basis).abs().amax(2) > 0
    values, vectors = _ritz(diagonal, beside, used)
    weights = vectors[:, :, -1].to(u.dtype)
    sharpest = torch.einsum("nj,jnp->np", weights, torch.stack(basis))
    return values[:, -1], values[:, 0], sharpest


def extremes_in_few_rows(
    make_product: Callable[[], Product],
    make_other: Callable[[], Product],
    u: Tensor,
    products: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Largest and smallest Ritz value of every row, and how another matrix differs.

    Lanczos by its bare recurrence, which keeps two vectors and no basis: what is lost
    by that are copies of values that were found, and they change neither end. It starts
    from a direction that two products have made sharp, and needs fewer steps from
    there. At that unit direction the images H u and H' u under the other matrix are
    taken: the mean of ``|H u|^2`` and ``|H' u|^2``, and ``|H u - H' u|^2 / 2``.
    """
    product = make_product()
    for _ in range(FIRST_PRODUCTS):
        u = _unit(product(u))
    other: Any = make_other()(u)
    q, previous = u, torch.zeros_like(u)
    diagonal: list[Tensor] = []
    beside: list[Tensor] = []
    used = [q.abs().amax(1) > 0]
    square = spread = torch.zeros(len(u), dtype=DOUBLE)
    for j in range(products):
        image = product(q)
        if j == 0:
            square = (_dot(image, image) + _dot(other, other)) / 2
            spread = _dot(other.sub_(image), other) / 2
            other = None
        else:
            image.addcmul_(previous, beside[-1].to(u)[:, None], value=-1)
        diagonal.append(_dot(image, q))
        image.addcmul_(q, diagonal[-1].to(u)[:, None], value=-1)
        if j + 1 < products:
            length = _dot(image, image).sqrt()
            small = length <= EXHAUSTED * torch.stack(diagonal).abs().amax(0)
            beside.append(torch.where(small, 0, length))
            image.mul_(torch.where(small, 0, 1 / length).to(u)[:, None])
            used.append(~small & used[-1])
            previous, q = q, image
    values, _ = _ritz(diagonal, beside, torch.stack(used))
    return values[:, -1], values[:, 0], square, spread


def _ritz(
    diagonal: list[Tensor], beside: list[Tensor], used: Tensor
) -> tuple[Tensor, Tensor]:
    """Values and vectors of one tridiagonal matrix per row; nan where it is not finite.

    Ritz values of what was not used would be 0; the first diagonal entry is between the
    ends of the spectrum.
    """
    filled = torch.where(used, torch.stack(diagonal), diagonal[0])
    inner = torch.diag_embed(filled.T.to(DOUBLE))
    if beside:
        off = torch.stack(beside, 1).to(DOUBLE)
        inner = inner + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    sick = ~inner.isfinite().flatten(1).all(1)
    inner[sick] = 0  # which no decomposition takes
    values, vectors = torch.linalg.eigh(inner)
    values[sick] = torch.nan
    return values, vectors


def _unit(u: Tensor) -> Tensor:
    """Rows of length 1, or 0 where they are; in place."""
    length = _dot(u, u).sqrt()[:, None]
    return u.mul_(torch.where(length == 0, 0, 1 / length).to(u))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Scalar products row by row, without another row in memory."""
    return torch.stack([torch.dot(x, y) for x, y in zip(a, b, strict=True)]).to(DOUBLE)
