"""What a look at the losses along the path takes: declared here, done by `theory`."""

from dataclasses import dataclass
from typing import final

__all__ = ["Look"]

GRADIENTS_PER_PRODUCT = 2  # that a product with a Hessian costs as much as


@final
@dataclass(frozen=True, slots=True)
class Look:
    """How closely the curvature of the losses is looked at.

    Parameters
    ----------
    products
        Hessian-vector products of a Lanczos iteration.
    samples
        Samples per agent in each of them.
    batches
        Minibatches on which one more product each tells the noise.

    Examples
    --------
    >>> Look(products=6, samples=96, batches=3).gradients
    6
    """

    products: int = 6
    samples: int = 96
    batches: int = 3

    @property
    def gradients(self) -> int:
        """Minibatch gradients that the products on minibatches cost as much as."""
        return GRADIENTS_PER_PRODUCT * self.batches

    @property
    def sample_gradients(self) -> int:
        """Sample gradients that the others cost as much as."""
        return GRADIENTS_PER_PRODUCT * self.products * self.samples
