"""HSM-ADMM: heterogeneous stochastic momentum ADMM (arXiv:2603.07682)."""

from dataclasses import dataclass, replace
from typing import Any, cast, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import grad_pair
from proxmesh.algorithms.hsm_admm_direct import (
    HSMADMMDirectFollowingState,
    HSMADMMDirectState,
    direct_start,
    direct_step,
)
from proxmesh.algorithms.hsm_admm_integrated import (
    HSMADMMIntegratedState,
    integrated_start,
    integrated_step,
)
from proxmesh.algorithms.hsm_admm_remedy import remedy_for
from proxmesh.algorithms.hsm_admm_state import (
    FOLLOWED,
    HSMADMMFollowingState,
    HSMADMMState,
    met_on_the_way,
)
from proxmesh.checks import require_nonnegative, require_positive, require_whole
from proxmesh.errors import InputError
from proxmesh.schedules import Power
from proxmesh.types import Cost, Look, Network, Problem

__all__ = ["HSMADMM"]

USUAL_MOMENTUM = 0.5  # c_a where the noise of the curvature asks for no more
LOOK = Look()  # what the agents take at one
LOOK_AFTER = tuple(8 << doubled for doubled in range(40))
"""The doubling iterations after which the losses are looked at again."""


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

    With nothing given the schedules follow the losses instead of a power of k::

        rho   = as large as the curvature along the path asks for
        eta_i = c_eta / c_rho rho (d_i + 1) + L_i
        a_i   = max(1 / (k + 1), P_i / (P_i + r_i), |D_i|^2 / (|D_i|^2 + r_i))

    where D_i is the difference of the two gradients, r_i the noise of one, P_i the
    expected error of v_i, and L_i at least the largest ``|D_i| / |x_i new - x_i old|``
    that was met of late. Before the run and after iterations 8, 16, 32, ... each agent
    looks at the curvature of its own loss at its own x_i, which gives its L_i anew; one
    number is averaged over the network, for rho. See `proxmesh.theory`.

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
        from the losses and the graph; see `proxmesh.theory`.
        ``c_eta >= 1.5 c_rho`` is stable on every graph, the smoothness of f aside.
    smoothness
        L_f in eta_i; 0 is the paper's step. None: 0 with a given ``c_eta``, else found
        from the curvature of the losses.
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
    follow
        True: rho and L_i are found again along the path, from `c_rho` and `smoothness`
        on. False: what is left out is found once, before the run, and then follows the
        powers of k. None: True if none of `c_rho`, `c_eta` and `smoothness` is given.
    dual_gain, fresh, integrated
        For imperfect links, and set from them where None; see `proxmesh.links`. The
        factor of rho in alpha_i; whether the primal step uses the newest x_i itself;
        whether sums over all iterations are sent, for silent losses and growing rho.

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
    follow: bool | None = None
    dual_gain: float | None = None
    fresh: bool | None = None
    integrated: bool | None = None

    def __post_init__(self) -> None:
        given = {n: v for n, v in self.constants.items() if v is not None}
        smoothness = given.pop("smoothness", 0.0)
        require_positive("HSMADMM", **given, dual_gain=self.gain)
        require_nonnegative("HSMADMM", smoothness=smoothness)
        if self.smoothness is None and self.c_eta is not None and not self.follows:
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

        if self.integrated and (self.follows or not self.split):
            raise InputError(
                "HSMADMM: `integrated` needs `split` and a given `c_rho`. Leave it out."
            )

    @property
    def gain(self) -> float:
        """The factor of rho in the step of alpha_i."""
        return 1.0 if self.dual_gain is None else self.dual_gain

    @property
    def reliable_at(self) -> tuple[int, ...]:
        """Iterations whose exchange must arrive, as the penalty changes after them."""
        return LOOK_AFTER if self.follows else ()

    @property
    def follows(self) -> bool:
        """Whether penalty and smoothness follow the losses along the path."""
        given = (self.c_rho, self.c_eta, self.smoothness) != (None, None, None)
        return not given if self.follow is None else self.follow

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the constants that are still to be found."""
        needed = self.constants
        if self.follows:
            del needed["c_a"]  # without it, a = 1 / (k + 1)
        return tuple(name for name, value in needed.items() if value is None)

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
        if "c_a" in found and found["c_a"] is None:  # it had followed the losses
            found["c_a"] = USUAL_MOMENTUM
        return replace(self, **found, follow=self.follows)

    @property
    def rho(self) -> Power:
        """The penalty, growing; where it follows the losses, its first value."""
        return Power(self._known("c_rho"), self.growth, self.k0)

    @property
    def eta(self) -> Power:
        """The inverse step for each unit of degree + 1, growing; L_f aside."""
        return Power(self._known("c_eta"), self.growth, self.k0)

    @property
    def growth(self) -> float:
        """The power of k in penalty and step."""
        return 0.0 if self.follows else 1 / 3

    @property
    def a(self) -> Power:
        """The momentum, vanishing."""
        if self.follows and self.c_a is None:
            return Power(1.0, -1.0, self.k0, ceiling=1.0)
        return Power(self._known("c_a"), -2 / 3, self.k0, ceiling=1.0)

    def looks_after(self, k: int) -> bool:
        """Whether the losses are looked at again between iterations k and k + 1.

        Parameters
        ----------
        k
            Finished iterations.
        """
        return self.follows and k in LOOK_AFTER

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
        if self.integrated:
            return HSMADMMIntegratedState
        if self.follows:
            return HSMADMMFollowingState if self.split else HSMADMMDirectFollowingState
        return HSMADMMState if self.split else HSMADMMDirectState

    # Type checkers are told of the usual form's state; `state_kind` knows all.
    def init(self, x0: Tensor, problem: Problem, network: Network) -> HSMADMMState:
        """Start at x0 with zero multipliers and a first minibatch gradient."""
        require_fit(x0, network)
        found: dict[str, Tensor] = {}
        if self.follows:
            first = (self._known("c_rho"), self._known("smoothness"), 0.0, 0.0, 0.0)
            for name, value in zip(FOLLOWED, first, strict=True):
                found[name] = x0.new_full((len(x0), 1), value)
        if self.integrated:
            return cast(HSMADMMState, integrated_start(x0, problem, network, self))
        if not self.split:
            start = direct_start(x0, problem, network, self.first_batch)
            return cast(HSMADMMState, self.state_kind(**start, **found))
        sent = network.exchange(x0)
        state: HSMADMMState = self.state_kind(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            v=problem.grad(x0, problem.sample(0, size=self.first_batch)),
            lx=sent.laplacian(),
            alpha_sum=torch.zeros_like(x0),
            beta=torch.zeros_like(x0),
            **found,
        )
        return state

    def step(
        self, state: HSMADMMState, problem: Problem, network: Network
    ) -> HSMADMMState:
        """Make the next iterate; a bare name is new, ``s.`` is old."""
        s, k = state, state.k + 1
        rho, eta = self.penalty(k, s), self.inverse_step(k, network, s)
        if self.integrated:
            return cast(HSMADMMState, integrated_step(self, s, problem, network, eta))
        if not self.split:
            return cast(HSMADMMState, direct_step(self, s, problem, network))

        y = problem.prox(s.x - s.beta / rho, 1 / rho)
        x = s.x - (s.v - s.alpha_sum - s.beta + rho * (s.lx + s.x - y)) / eta
        sent = network.exchange(x)  # travels while the gradients are computed

        g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
        a, met = self.momentum(s, x, g, g_old)
        v = g + (1 - a) * (s.v - g_old)

        lx = sent.laplacian()
        return replace(
            s,
            k=k,
            x=x,
            y=y,
            v=v,
            lx=sent.pull() if self.fresh else lx,
            alpha_sum=s.alpha_sum - self.gain * rho * lx,
            beta=s.beta - rho * (x - y),
            **met,
        )

    def momentum(self, state: Any, x: Tensor, g: Tensor, g_old: Tensor) -> Any:
        """The a that makes the next v, and what a following state learns on the way.

        Parameters
        ----------
        state
            The old one.
        x
            The new rows.
        g, g_old
            Gradients on the same minibatch at the new and at the old rows.
        """
        a: Any = self.a(state.k + 2)
        if not self.follows:
            return a, {}
        asked, met = met_on_the_way(state, x, g, g_old)
        return (torch.maximum(a.to(asked), asked) if self.c_a is None else a), met

    def penalty(self, k: Tensor | int, state: Any = None) -> Any:
        """The rho that makes iterate k, ``[n_local, 1]`` where it is in the state.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        state
            Of iterate k or of the one before it. None: as the run begins.
        """
        followed = self.follows and state is not None
        return state.rho if followed else self.rho(k)

    def inverse_step(self, k: Tensor | int, network: Any, state: Any = None) -> Any:
        """The eta_i that make iterate k, ``[n_local, 1]`` where agents differ.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        network
            Of which it reads the degrees.
        state
            Of iterate k or of the one before it. None: as the run begins.
        """
        weight = self.step_weight(network.degree, network.max_degree)
        if self.follows and state is not None:
            ratio = self._known("c_eta") / self._known("c_rho")
            smoothness = torch.maximum(state.smoothness, state.met)
            return ratio * state.rho * weight + smoothness
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
        """One vector in one round; two gradients, one in `init`; what a look takes."""
        look = LOOK if self.follows and (k == 0 or self.looks_after(k)) else None
        if k == 0:
            return Cost(1, 1, gradients=1, batch=self.first_batch, look=look)
        return Cost(1, 1, gradients=2, look=look, overlaps=True)

    def remedy(self) -> str:
        """Say what to change after a divergence."""
        return remedy_for(self)
