"""Several rounds of mixing: plain multi-consensus or Chebyshev-accelerated."""

from torch import Tensor

from proxmesh.types import Network

__all__ = ["mixed"]


def mixed(
    network: Network, x: Tensor, rounds: int = 1, chebyshev: bool = False
) -> Tensor:
    """Return ``W^rounds x``, or the Chebyshev polynomial of that degree in W.

    Both keep the mean over agents. With ``lam`` the second largest absolute eigenvalue
    of W and ``a_0 = 1, a_1 = 1/lam, a_{t+1} = 2 a_t/lam - a_{t-1}``, the accelerated
    iteration is ``z_{t+1} = (2 a_t W z_t / lam - a_{t-1} z_{t-1}) / a_{t+1}``. It reads
    ``mixing_lambda``, a global fact.

    Cost: x is sent `rounds` times, one after the other.

    Examples
    --------
    >>> import torch
    >>> import proxmesh as pm
    >>> world = pm.connect(pm.graphs.path(3), dtype=torch.float64)
    >>> mixed(world, torch.tensor([[0.0], [0.0], [9.0]]).double(), rounds=2).T
    tensor([[1.0000, 3.0000, 5.0000]], dtype=torch.float64)
    """
    old, z = x, network.exchange(x).mix()
    if not chebyshev or network.mixing_lambda == 0:
        for _ in range(rounds - 1):
            z = network.exchange(z).mix()
        return z
    lam = network.mixing_lambda
    a_old, a = 1.0, 1 / lam
    for _ in range(rounds - 1):
        a_new = 2 * a / lam - a_old
        wz = network.exchange(z).mix()
        old, z = z, (2 * a / (lam * a_new)) * wz - (a_old / a_new) * old
        a_old, a = a, a_new
    return z
