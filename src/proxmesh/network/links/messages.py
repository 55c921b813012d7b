"""What becomes of a message on its way: one frozen dataclass each.

A model says how old that makes what an agent knows of its neighbors. From this
HSM-ADMM's dual gain is set; see docs/links.md.
"""

from dataclasses import dataclass
from typing import Any

from proxmesh.checks import require_nonnegative, require_positive, require_whole
from proxmesh.compressors import Bits, Identity, Pow2, RandomK, Sign, TopK
from proxmesh.errors import InputError
from proxmesh.types import Compressor

__all__ = ["Compressed", "Delay", "Every", "Noise"]

COARSE_GAIN = 0.1  # measured: signs, and 2 bits
FINE_BITS = 3  # from which a difference counts as sent as it is


@dataclass(frozen=True, slots=True)
class Delay:
    """Messages arrive late; both ends use the pair of the same, older iteration.

    Parameters
    ----------
    tau
        Iterations on the way.
    random
        True: every edge has a delay of its own, from 0 to `tau`.
    seed
        Another number draws other delays.

    Examples
    --------
    >>> Delay(2).age
    2.0
    >>> Delay(1.5)
    Traceback (most recent call last):
    proxmesh.errors.InputError: Delay: `tau` must be a whole number of at least 0, ...
    """

    tau: int
    random: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("Delay", 0, tau=self.tau, seed=self.seed)

    @property
    def age(self) -> float:
        """The longest delay."""
        return float(self.tau)


@dataclass(frozen=True, slots=True)
class Every:
    """Neighbors talk in every so many iterations only: local rounds between.

    In between, both ends go on with the pair of the last talk.

    Parameters
    ----------
    iterations
        From one talk to the next.

    Examples
    --------
    >>> Every(4).age
    3.0
    """

    iterations: int

    def __post_init__(self) -> None:
        require_whole("Every", 1, iterations=self.iterations)

    @property
    def age(self) -> float:
        """The oldest that a pair gets."""
        return self.iterations - 1.0


@dataclass(frozen=True, slots=True)
class Compressed:
    """Differences to what the other end knows are sent, in few bits or entries.

    Both ends add what was sent to the same reference. Where links fail besides, there
    is a reference for every edge, which moves when both directions have arrived.

    Parameters
    ----------
    compressor
        One of `proxmesh.compressors`, or your own `Compressor`.
    damping
        Share of what was sent by which references move; a compressor that overshoots
        needs less than 1.

    Examples
    --------
    >>> import proxmesh as pm
    >>> Compressed(pm.links.Bits(4)).gain(1000), Compressed(pm.links.TopK(0.1)).gain(50)
    (1.0, 0.2)
    """

    compressor: Any = Bits(4)
    damping: float = 1.0

    def __post_init__(self) -> None:
        require_positive("Compressed", damping=self.damping)
        if not isinstance(self.compressor, Compressor):
            raise InputError(
                "Compressed: `compressor` must have `compress`, `contraction` and "
                f"`message_bits`, got {self.compressor!r}. See `proxmesh.compressors`."
            )

    def age_of(self, p: int) -> float:
        """Mean age that vectors of p entries have at the other end.

        Parameters
        ----------
        p
            Entries of a vector.
        """
        kept = 1.0
        if isinstance(self.compressor, TopK | RandomK):
            kept = self.compressor.contraction(p)
        elif isinstance(self.compressor, Sign) or self.is_coarse:
            kept = 1 / (1 + 1 / (2 * COARSE_GAIN))
        elif not isinstance(self.compressor, Bits | Identity | Pow2):
            kept = self.compressor.contraction(p)
        return 1 / (self.damping * kept) - 1

    def gain(self, p: int) -> float:
        """The dual gain that suits it, for vectors of p entries.

        Parameters
        ----------
        p
            Entries of a vector.
        """
        age = self.age_of(p)
        if isinstance(self.compressor, TopK):
            return min(1.0, 2 * self.damping * self.compressor.contraction(p))
        if isinstance(self.compressor, Sign) or self.is_coarse:
            return COARSE_GAIN * self.damping
        return 1.0 if age == 0 else 1 / (2 * (1 + age))

    @property
    def is_coarse(self) -> bool:
        """Whether it has too few bits to count as nothing."""
        return isinstance(self.compressor, Bits) and self.compressor.bits < FINE_BITS


@dataclass(frozen=True, slots=True)
class Noise:
    """Every message has normal noise on it, which nobody knows.

    Parameters
    ----------
    sigma
        Standard deviation of every entry's noise.
    seed
        Another number draws other noise.

    Examples
    --------
    >>> Noise(0.01)
    Noise(sigma=0.01, seed=0)
    """

    sigma: float
    seed: int = 0

    def __post_init__(self) -> None:
        require_nonnegative("Noise", sigma=self.sigma)
        require_whole("Noise", 0, seed=self.seed)
