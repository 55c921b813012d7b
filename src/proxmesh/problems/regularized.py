"""The half of a problem that its regularizer answers for."""

from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.problems.regularizers import Regularizer, has_distance, has_subgrad

__all__ = ["Regularized"]


class Regularized:
    """A problem with a regularizer h, of which it passes on what h can do."""

    regularizer: Regularizer

    def prox(self, z: Tensor, step: Tensor | float) -> Tensor:
        """Row-wise prox of ``step * h``.

        Parameters
        ----------
        z
            Rows.
        step
            A number, a 0-d tensor or ``[n_local, 1]``.
        """
        return self.regularizer.prox(z, step)

    def penalty(self, x: Tensor) -> Tensor:
        """h(x_i), ``[rows]``.

        Parameters
        ----------
        x
            Any number of rows.
        """
        return self.regularizer.value(x)

    def subgrad(self, x: Tensor) -> Tensor:
        """Row i: a subgradient of h at x_i, if h has one.

        Parameters
        ----------
        x
            Any number of rows.
        """
        if not has_subgrad(self.regularizer):
            kind = type(self.regularizer).__name__
            raise InputError(f"regularizer `{kind}` offers no subgradient.")
        return self.regularizer.subgrad(x)

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Squared distance of u_i to the subdifferential of h at y_i, if h tells.

        Parameters
        ----------
        u, y
            Any number of rows.
        """
        if not has_distance(self.regularizer):
            return None
        return self.regularizer.distance(u, y)
