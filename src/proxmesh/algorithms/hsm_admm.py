"""HSM-ADMM: heterogeneous stochastic momentum ADMM (arXiv:2603.07682)."""

from dataclasses import dataclass, replace
from typing import Any, cast, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import grad_pair
from proxmesh.algorithms.hsm_admm_direct import (
    HSMADMMDirectState,
    direct_start,
    direct_step,
)
from proxmesh.checks import require_nonnegative, require_positive, require_whole
from proxmesh.errors import InputError
from proxmesh.schedules import Power
from proxmesh.types import Cost, Network, Problem, has_distance, has_full_gradient

__all__ = ["HSMADMM", "HSMADMMState"]

GRAPH_FREE_RATIO = 1.5
"""c_eta / c_rho from which every graph is stable, the smoothness of f aside."""


@final
@dataclass(frozen=True, slots=True)
class HSMADMMState:
    """The state of HSM-ADMM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # primal copies x_i: the models
    y: Tensor  # splitting copies y_i: the prox side, exactly sparse under l1
    v: Tensor  # STORM estimators of the local gradients
    lx: Tensor  # (L x)_i of the current x: one exchange serves two updates
    alpha_sum: Tensor  # sum_j alpha_ij: no multiplier is stored per edge
    beta: Tensor  # multipliers of x_i = y_i

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y

    def kkt_residual(self, problem: Problem) -> Tensor | None:
        """Each agent's part of ``dist^2(0, dL(x, y, lambda))``, ``[n_local]``.

        ``|grad f_i(x_i) - sum_j alpha_ij - beta_i|^2 + dist^2(-beta_i, dh(y_i))
        + <x_i, (L x)_i> + |x_i - y_i|^2``: stationarity in x and in y, then the two
        constraints. None for a problem without `full_grad` and `distance`.
        """
        in_y = problem.distance(-self.beta, self.y) if has_distance(problem) else None
        if in_y is None or not has_full_gradient(problem):
            return None
        in_x = problem.full_grad(self.x) - self.alpha_sum - self.beta
        edges = (self.x * self.lx).sum(1)
        copies = (self.x - self.y).square().sum(1)
        return in_x.square().sum(1) + in_y + edges + copies


@final
@dataclass(frozen=True, slots=True)
class HSMADMM:
    """Linearized ADMM with STORM gradients and degree-scaled steps.

    The step that makes iterate k (k = 1, 2, ...) is, for every agent i at once::

        rho   = c_rho k^(1/3),  eta_i = c_eta (d_i + 1) k^(1/3) + L_f
        a     = min(1, c_a (k + 1)^(-2/3))
        y_i  <- prox of h/rho at x_i - beta_i/rho
        x_i  <- x_i - (v_i - alpha_i - beta_i + rho ((L x)_i + x_i - y_i)) / eta_i
        v_i  <- grad f_i(x_i new; xi) + (1 - a) (v_i - grad f_i(x_i old; xi))
        alpha_i <- alpha_i - rho (L x)_i,   beta_i <- beta_i - rho (x_i - y_i)

    where xi is the minibatch of iteration k, L the Laplacian, d_i the degree, alpha_i
    the sum of the multipliers of agent i's edges and beta_i that of x_i = y_i. The
    paper's step has L_f = 0; with L_f the smoothness of the losses it is stable from
    the first iteration on.

    With ``split=False`` the prox is on x itself, without y_i and beta_i::

        x_i  <- prox of h/eta_i at x_i - (v_i - alpha_i + rho (L x)_i) / eta_i

    Then x is exactly sparse under l1 and the state has 4 rows in place of 6: DPGA with
    STORM gradients and growing parameters.

    A step reads the agent's own degree and no other fact about the graph
    (``heterogeneous=False``, an ablation, reads ``max_degree``).

    Cost of an iteration: 1 vector to each neighbor in 1 round, hidden behind 2
    minibatch gradients on the same batch.

    Parameters
    ----------
    c_rho, c_eta, c_a
        Constants of the penalty, the step and the momentum. Those left out are found
        before the run from the losses and the graph; see `proxmesh.theory`.
        ``c_eta >= 1.5 c_rho`` is stable on every graph, the smoothness of f aside.
    smoothness
        L_f in eta_i; 0 is the paper's step. None: 0 with a given ``c_eta``, else the
        largest curvature of the losses, found before the run.
    k0
        Offset of the schedules: k + k0 stands for k in the three formulas.
    heterogeneous
        True: eta_i with the agent's own degree. False: the largest degree for all.
    assumed_degree
        One degree for all agents, blind to the graph: what a step tuned on a ring (2)
        does elsewhere. None: see `heterogeneous`.
    first_batch
        Samples of the very first gradient (m0); None: the problem's batch size.
    split
        True: the paper's form, with a copy y_i for the prox. False: the prox on x_i.

    Examples
    --------
    >>> HSMADMM(c_rho=0.25, c_eta=0.5, c_a=1.0).rho(8)
    0.5
    >>> HSMADMM(c_rho=-0.1)
    Traceback (most recent call last):
    proxmesh.errors.InputError: HSMADMM: `c_rho` must be positive and finite, got -0.1.

    References
    ----------
    Zhang, Xiong, Xu, You, Shi: Heterogeneous Stochastic Momentum ADMM for Distributed
    Nonconvex Composite Optimization, arXiv:2603.07682.
    """

    c_rho: float | None = None
    c_eta: float | None = None
    c_a: float | None = None
    smoothness: float | None = None
    k0: int = 0
    heterogeneous: bool = True
    assumed_degree: int | None = None
    first_batch: int | None = None
    split: bool = True

    def __post_init__(self) -> None:
        given = {n: v for n, v in self.constants.items() if v is not None}
        smoothness = given.pop("smoothness", 0.0)
        require_positive("HSMADMM", **given)
        require_nonnegative("HSMADMM", smoothness=smoothness)
        if self.smoothness is None and self.c_eta is not None:
            object.__setattr__(self, "smoothness", 0.0)
        require_whole("HSMADMM", 0, k0=self.k0)
        require_whole(
            "HSMADMM",
            1,
            first_batch=self.first_batch,
            assumed_degree=self.assumed_degree,
        )
        if self.assumed_degree is not None and not self.heterogeneous:
            raise InputError(
                f"HSMADMM: `assumed_degree` = {self.assumed_degree} and "
                "`heterogeneous` = False are two degrees for one step. Give one of "
                "them."
            )

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the constants that are still to be found."""
        return tuple(name for name, value in self.constants.items() if value is None)

    @property
    def constants(self) -> dict[str, float | None]:
        """The constants by name; None where one is still to be found."""
        return {
            "c_rho": self.c_rho,
            "c_eta": self.c_eta,
            "c_a": self.c_a,
            "smoothness": self.smoothness,
        }

    def with_constants_of(self, earlier: "HSMADMM") -> "HSMADMM":
        """The algorithm with what an earlier run has found for what is missing here.

        Where one of c_rho and c_eta is given anew, the other keeps its ratio to it.
        """
        found: Any = {name: earlier.constants[name] for name in self.missing}
        for name, other in (("c_rho", "c_eta"), ("c_eta", "c_rho")):
            given, before = self.constants[other], earlier.constants[other]
            if name in found and given is not None and before is not None:
                found[name] *= given / before
        return replace(self, **found)

    @property
    def rho(self) -> Power:
        """The penalty, growing."""
        return Power(self._known("c_rho"), 1 / 3, self.k0)

    @property
    def eta(self) -> Power:
        """The inverse step for each unit of degree + 1, growing; L_f aside."""
        return Power(self._known("c_eta"), 1 / 3, self.k0)

    @property
    def a(self) -> Power:
        """The momentum, vanishing."""
        return Power(self._known("c_a"), -2 / 3, self.k0, ceiling=1.0)

    def _known(self, name: str) -> float:
        value = self.constants[name]
        if value is None:
            raise InputError(
                f"HSMADMM: `{name}` was left out, to be found before a run. Give it, "
                "use `pm.solve`, or `pm.theory.settled` in a loop of your own."
            )
        return value

    @property
    def state_kind(self) -> type[Any]:
        """The class of its states: with y_i and beta_i, or without."""
        return HSMADMMState if self.split else HSMADMMDirectState

    # Type checkers are told of the usual form's state; `state_kind` knows both.
    def init(self, x0: Tensor, problem: Problem, network: Network) -> HSMADMMState:
        """Start at x0 with zero multipliers and a first minibatch gradient."""
        require_fit(x0, network)
        if not self.split:
            start: Any = direct_start(x0, problem, network, self.first_batch)
            return cast(HSMADMMState, start)
        sent = network.exchange(x0)
        return HSMADMMState(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            v=problem.grad(x0, problem.sample(0, size=self.first_batch)),
            lx=sent.laplacian(),
            alpha_sum=torch.zeros_like(x0),
            beta=torch.zeros_like(x0),
        )

    def step(
        self, state: HSMADMMState, problem: Problem, network: Network
    ) -> HSMADMMState:
        """Make the next iterate; a bare name is new, ``s.`` is old."""
        s, k = state, state.k + 1
        rho, eta, a = self.rho(k), self.inverse_step(k, network), self.a(k + 1)
        if not self.split:
            direct: Any = s
            direct = direct_step(direct, problem, network, rho=rho, eta=eta, a=a)
            return cast(HSMADMMState, direct)

        y = problem.prox(s.x - s.beta / rho, 1 / rho)
        x = s.x - (s.v - s.alpha_sum - s.beta + rho * (s.lx + s.x - y)) / eta
        sent = network.exchange(x)  # travels while the gradients are computed

        g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
        v = g + (1 - a) * (s.v - g_old)

        lx = sent.laplacian()
        return HSMADMMState(
            k=k,
            x=x,
            y=y,
            v=v,
            lx=lx,
            alpha_sum=s.alpha_sum - rho * lx,
            beta=s.beta - rho * (x - y),
        )

    def inverse_step(self, k: Tensor | int, network: Any) -> Any:
        """eta_i of iteration k, ``[n_local, 1]`` where agents differ.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        network
            Of which it reads the degrees.
        """
        weight = self.step_weight(network.degree, network.max_degree)
        return self.eta(k) * weight + self._known("smoothness")

    def step_weight(self, degree: Any, largest: int) -> Any:
        """d_i + 1 with the degree that the step uses: each agent's, or one for all.

        Parameters
        ----------
        degree
            Of each agent.
        largest
            Of the whole network, which the uniform step uses.
        """
        if self.assumed_degree is not None:
            return self.assumed_degree + 1.0
        return (degree if self.heterogeneous else largest) + 1.0

    def cost(self, k: int) -> Cost:
        """One vector in one round; two gradients, one in `init`."""
        if k == 0:
            return Cost(vectors=1, rounds=1, gradients=1, batch=self.first_batch)
        return Cost(vectors=1, rounds=1, gradients=2)

    def remedy(self) -> str:
        """Say what to change after a divergence."""
        if self.assumed_degree is not None:
            return (
                f"All agents assume degree {self.assumed_degree}: leave "
                "`assumed_degree` out, so that each uses its own."
            )
        if self.missing:
            return "Give `c_rho`, `c_eta` and `c_a`."
        c_rho, c_eta, c_a = map(self._known, ("c_rho", "c_eta", "c_a"))
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
