"""Extreme eigenvalues of a graph's matrices, scaled by the weights of the steps."""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from proxmesh.graphs import Graph

__all__ = ["LINEARIZED", "Spectra", "largest_eigenvalue", "smallest_eigenvalue"]

LINEARIZED = 0.75
"""How much of ``rho A'A`` a linearized step must cover (He, Ma, Yuan 2020)."""
TOLERANCE = 1e-9  # of a sparse eigenvalue, relative
KRYLOV = 64  # vectors of the sparse solver; rings need more than its default

Vector: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = Any
"""A symmetric matrix, dense or sparse."""


@final
@dataclass(frozen=True, slots=True)
class Spectra:
    """``W^(-1/2) (c L + diag(own)) W^(-1/2)`` of one graph, for any c, own and W.

    W is the diagonal matrix of `weight`, c is `coupling`.

    Parameters
    ----------
    graph
        Whose Laplacian L is.

    Examples
    --------
    >>> from proxmesh import graphs
    >>> round(Spectra(graphs.ring(8)).largest(np.full(8, 3.0)), 4)  # 4 / 3
    1.3333
    """

    graph: Graph

    def scaled(self, weight: Vector, coupling: float = 1.0, own: Any = 0.0) -> Matrix:
        """The matrix itself; sparse where the graph's Laplacian is."""
        root = 1 / np.sqrt(weight)
        diagonal = np.broadcast_to(np.asarray(own, float), weight.shape)
        laplacian = self.graph.laplacian
        if isinstance(laplacian, np.ndarray):
            matrix = coupling * laplacian + np.diag(diagonal)
            return root[:, None] * matrix * root
        scale = sparse.diags_array(root)
        inner = coupling * laplacian + sparse.diags_array(diagonal)
        return sparse.csr_array(scale @ inner @ scale)

    def largest(self, weight: Vector, coupling: float = 1.0, own: Any = 0.0) -> float:
        """Largest eigenvalue."""
        return largest_eigenvalue(self.scaled(weight, coupling, own))

    def smallest(self, coupling: float, own: Any) -> float:
        """Smallest eigenvalue of ``c L + diag(own)``."""
        ones = np.ones(self.graph.n)
        return smallest_eigenvalue(self.scaled(ones, coupling, own))

    def slowest(self, weight: Vector) -> float:
        """Smallest eigenvalue of the scaled L except its 0: the slowest mode."""
        matrix = self.scaled(weight)
        if isinstance(matrix, np.ndarray):
            return float(np.linalg.eigvalsh(matrix)[1])
        # Shift-invert just below 0 finds the smallest eigenvalues in a few solves.
        found = eigsh(matrix.tocsc(), k=2, sigma=-1e-3, return_eigenvectors=False)
        return float(np.sort(found)[1])


def largest_eigenvalue(matrix: Matrix) -> float:
    """Largest eigenvalue of a symmetric matrix, dense or sparse."""
    if isinstance(matrix, np.ndarray):
        return float(np.linalg.eigvalsh(matrix)[-1])
    found = eigsh(
        matrix,
        k=1,
        which="LA",
        ncv=min(KRYLOV, matrix.shape[0] - 1),
        tol=TOLERANCE,
        v0=_start(matrix.shape[0]),
        return_eigenvectors=False,
    )
    return float(found[0])


def smallest_eigenvalue(matrix: Matrix) -> float:
    """Smallest eigenvalue of a symmetric matrix, dense or sparse."""
    return -largest_eigenvalue(-matrix)


def _start(n: int) -> Vector:
    """A fixed first vector, so that a certificate is the same every time."""
    return np.random.default_rng(0).standard_normal(n)
