"""Which methods have a form for agents that wait for nobody, and what that needs."""

from dataclasses import replace
from typing import Any

from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.algorithms.dpsgd_asynchronous import DPSGDAsynchronous
from proxmesh.algorithms.hsm_admm import HSMADMM
from proxmesh.algorithms.hsm_admm_asynchronous import HSMADMMAsynchronous
from proxmesh.errors import InputError
from proxmesh.types import Algorithm, AsynchronousForm

__all__ = ["asynchronous_form", "made_asynchronous"]


def made_asynchronous(algorithm: Algorithm[Any]) -> Algorithm[Any]:
    """The method as an asynchronous run takes it, with constants still to be found.

    HSM-ADMM gets schedules that depend on the clock alone, and sums in place of values.
    A dual gain that is left out follows the age of messages.

    Parameters
    ----------
    algorithm
        As it was given.

    Examples
    --------
    >>> made = made_asynchronous(HSMADMM())
    >>> made.follow, made.integrated, made.fresh
    (False, True, True)
    """
    if isinstance(algorithm, DPSGD):
        return algorithm
    if not isinstance(algorithm, HSMADMM):
        raise InputError(
            f"{type(algorithm).__name__} has no asynchronous form; HSMADMM and DPSGD "
            "have one. Leave `asynchronous` out, or take `hsm-admm` or `d-psgd`."
        )
    if not algorithm.split or algorithm.follow:
        option = "follow=True" if algorithm.split else "split=False"
        raise InputError(
            f"HSMADMM: `{option}` has no asynchronous form: its ranks would have to "
            "wait for each other. Leave it out."
        )
    return replace(algorithm, follow=False, integrated=True, fresh=True)


def asynchronous_form(algorithm: Any) -> AsynchronousForm[Any]:
    """The asynchronous form of a method that was made so.

    Parameters
    ----------
    algorithm
        With all its constants.
    """
    if isinstance(algorithm, DPSGD):
        return DPSGDAsynchronous(algorithm)
    assert isinstance(algorithm, HSMADMM)
    return HSMADMMAsynchronous(algorithm)
