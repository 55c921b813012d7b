"""A door for people with their own training loop: HSM-ADMM as a torch optimizer."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypedDict, Unpack, final

import networkx as nx
import torch
from torch import Tensor

from proxmesh import algorithms
from proxmesh.checks import require_positive
from proxmesh.errors import InputError, unknown
from proxmesh.graphs import Graph, as_graph
from proxmesh.launchers import launched
from proxmesh.network import TIMEOUT, connect
from proxmesh.problems import NoRegularizer
from proxmesh.problems.layout import Layout
from proxmesh.problems.regularizers import bind_to_layout
from proxmesh.solver.state import rebuilt, tensors_of
from proxmesh.theory import Looks, settled
from proxmesh.types import World

__all__ = ["HSMADMM"]

Closure = Callable[[], Any]


class Constants(TypedDict, total=False):
    """The options of `proxmesh.HSMADMM` that the optimizer takes, too."""

    c_rho: float
    c_eta: float
    c_a: float
    smoothness: float
    k0: int
    heterogeneous: bool
    assumed_degree: int
    follow: bool


@final
class HSMADMM(torch.optim.Optimizer):
    """HSM-ADMM in the manner of `torch.optim.LBFGS`: one agent in each process.

    Start as many processes as the graph has agents, with `mpiexec` or `torchrun`; the
    agent of this process is its rank. Every process builds its own model on its own
    data and calls `step` with a closure::

        opt = pm.optim.HSMADMM(model.parameters(), graph=pm.graphs.ring(8))
        for inputs, targets in loader:
            def closure():
                opt.zero_grad()
                loss = loss_of(model(inputs), targets)
                loss.backward()
                return loss
            opt.step(closure)
        opt.average_()

    The first `step` takes a first gradient and moves nothing. Later ones send the new
    parameters to the neighbors and meanwhile call the closure twice, at the new and at
    the old parameters, with the same state of torch's random numbers: the closure must
    use the same minibatch both times. What the model counts by itself (running
    statistics of a normalization) it counts twice.

    Parameters
    ----------
    params
        Parameters or named parameters, one group. Those that need no gradient stay.
    graph, engine, timeout
        Who talks to whom, and how; see `proxmesh.connect`.
    regularizer
        h, such as ``pm.L1(1e-4)``; ``pm.Only`` needs named parameters.
    lr
        Multiplies the step 1/eta_i of the method, for the schedulers of torch: 1.0 is
        the method itself, 0.5 steps half as far. It must stay positive and equal on
        all processes; from some lr on the steps are too long for the losses.
    constants
        Of `proxmesh.HSMADMM`: ``c_rho``, ``c_eta``, ``c_a``, ``smoothness``, ``k0``,
        ``heterogeneous``, ``assumed_degree``, ``follow``. Those left out are found in
        the first `step`, which then calls the closure some 30 times on its minibatch,
        and again after steps 8, 16, 32, ...; they are in the state dict.
    """

    def __init__(
        self,
        params: Iterable[Any],
        graph: "Graph | nx.Graph[Any]",
        *,
        regularizer: Any = None,
        engine: str = "auto",
        timeout: float = TIMEOUT,
        lr: float = 1.0,
        **constants: Unpack[Constants],
    ) -> None:
        known = [*Constants.__annotations__, "lr"]
        for name in constants:
            if name not in known:
                raise unknown("option", name, known, of="optim.HSMADMM")
        require_positive("optim.HSMADMM", lr=lr)
        algorithm = algorithms.HSMADMM(**constants)
        options = [*constants, *algorithm.missing, "follow"]
        self._names = list(dict.fromkeys(options))
        chosen = {name: getattr(algorithm, name) for name in self._names}
        chosen["follow"] = algorithm.follows
        super().__init__(params, {"lr": lr, **chosen})
        if len(self.param_groups) != 1:
            raise InputError(
                f"optim.HSMADMM takes one group of parameters, got "
                f"{len(self.param_groups)}. One step size serves all."
            )
        group = self.param_groups[0]
        used = [p.requires_grad for p in group["params"]]
        self._params: list[Tensor] = [p for p in group["params"] if p.requires_grad]
        if not self._params:
            raise InputError("optim.HSMADMM: no parameter needs a gradient.")
        called = group.get("param_names", map(str, range(len(used))))
        names = tuple(n for n, kept in zip(called, used, strict=True) if kept)
        self._layout = Layout(names, tuple(p.shape for p in self._params))
        self._regularizer = bind_to_layout(regularizer or NoRegularizer(), self._layout)
        self._graph = as_graph(graph)
        self._world = self._joined(graph, engine, timeout)
        self._world.agree(
            {
                "number of parameters": str(self._layout.p),
                "algorithm": repr(algorithm),
                "regularizer": str(self._regularizer),
            }
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # saved before it had one
            group.setdefault("lr", 1.0)
            group.setdefault("follow", False)

    def _joined(self, graph: Any, engine: str, timeout: float) -> World:
        first = self._params[0]
        if engine == "simulated" or (engine, launched().engine) == (
            "auto",
            "simulated",
        ):
            raise InputError(
                "optim.HSMADMM needs a process for each agent; this one was started "
                "alone. Use `torchrun --nproc-per-node N` or `mpiexec -n N`, or "
                "`pm.solve` to simulate."
            )
        world = connect(
            graph, engine, dtype=first.dtype, device=first.device, timeout=timeout
        )
        if len(world.agents) != 1:
            raise InputError(
                f"optim.HSMADMM needs a process for each of the {world.n} agents, but "
                f"this one holds {len(world.agents)}. Start {world.n} processes."
            )
        return world

    @property
    def agent(self) -> int:
        """The agent that this process is."""
        return self._world.agents[0]

    @torch.no_grad()
    def step(self, closure: Closure) -> Any:  # type: ignore[override]
        """Make one iteration; return what the closure returned at the new parameters.

        Parameters
        ----------
        closure
            Computes the loss of one minibatch and its gradients, and returns the loss.
        """
        group = self.param_groups[0]
        algorithm = algorithms.HSMADMM(**{name: group[name] for name in self._names})
        require_positive("optim.HSMADMM", lr=group["lr"])
        problem = _ClosureProblem(self, torch.enable_grad()(closure))
        held = self.state[self._params[0]]
        if held:
            rows = {name: value for name, value in held.items() if name != "step"}
            before = rebuilt(algorithm.state_kind, {"k": held["step"], **rows})
            before = self._looked(algorithm, problem, before)
            state = _longer_step(algorithm, before, problem, self._world, group["lr"])
        else:
            algorithm = self._settled(algorithm, problem)
            state = algorithm.init(self._row()[None], problem, self._world)
        tensors = tensors_of(state)
        held["step"] = tensors.pop("k")  # torch's name for it
        held.update(tensors)
        self._put(state.x[0])
        return problem.loss

    def _settled(
        self, algorithm: algorithms.HSMADMM, problem: "_ClosureProblem"
    ) -> algorithms.HSMADMM:
        """Find the constants that were left out, and keep them where torch looks."""
        before, row = _random_state(self._params[0].device), self._row()[None]
        found = settled(algorithm, problem, self._world, self._graph, row)
        _set_random_state(before, self._params[0].device)
        for name, value in found.constants.items():
            self.param_groups[0][name] = float(value)
        self._put(row[0])
        chosen: algorithms.HSMADMM = found.algorithm
        return chosen

    def _looked(
        self, algorithm: algorithms.HSMADMM, problem: "_ClosureProblem", state: Any
    ) -> Any:
        """Look at the loss again, if that is due, and leave no trace of it."""
        if not algorithm.looks_after(int(state.k)):
            return state
        before = _random_state(self._params[0].device)
        looked = Looks(algorithm, problem, self._world, self._graph)(state)
        _set_random_state(before, self._params[0].device)
        self._put(looked.x[0])
        return looked

    @torch.no_grad()
    def average_(self) -> None:
        """Put the mean of all agents' models into the parameters; every process calls.

        The next `step` goes on from the agent's own model.
        """
        held = self.state[self._params[0]]
        rows = held["x"] if held else self._row()[None]
        self._put(self._world.reduce(rows, "mean"))

    def _row(self) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self._params])

    def _put(self, row: Tensor) -> None:
        parts = self._layout.unflatten(row).values()
        for parameter, part in zip(self._params, parts, strict=True):
            parameter.copy_(part)

    def _grad_at(self, row: Tensor, closure: Closure) -> tuple[Any, Tensor]:
        self._put(row)
        loss = closure()
        return loss, torch.cat(
            [
                (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1)
                for p in self._params
            ]
        )


@final
class _ClosureProblem:
    """The closure's minibatch as the problem of one agent."""

    def __init__(self, optimizer: HSMADMM, closure: Closure) -> None:
        self._optimizer = optimizer
        self._closure = closure
        self.loss: Any = None

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        """The closure knows its batch."""

    def grad(self, x: Tensor, batch: Any) -> Tensor:
        """The closure's gradient at x."""
        del batch
        self.loss, gradient = self._optimizer._grad_at(x[0], self._closure)
        return gradient[None]

    def grad_pair(self, x: Tensor, x_old: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Both gradients under the same random numbers, the new one's loss kept."""
        before = _random_state(x.device)
        g = self.grad(x, batch)
        loss, after = self.loss, _random_state(x.device)
        _set_random_state(before, x.device)
        g_old = self.grad(x_old, batch)
        _set_random_state(after, x.device)
        self.loss = loss
        return g, g_old

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """The regularizer's."""
        found: Tensor = self._optimizer._regularizer.prox(z, step)
        return found


def _longer_step(
    algorithm: algorithms.HSMADMM,
    state: Any,
    problem: "_ClosureProblem",
    world: World,
    lr: float,
) -> Any:
    """A step 1/eta_i that is `lr` times as long; at 1.0 it is the method's own."""
    c_eta, smoothness = algorithm.c_eta, algorithm.smoothness
    assert c_eta is not None
    assert smoothness is not None
    scaled = replace(algorithm, c_eta=c_eta / lr, smoothness=smoothness / lr)
    if not algorithm.follows:
        return scaled.step(state, problem, world)
    made: Any = scaled.step(
        replace(state, smoothness=state.smoothness / lr), problem, world
    )
    return replace(made, smoothness=lr * made.smoothness)


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), cuda


def _set_random_state(
    state: tuple[Tensor, Tensor | None], device: torch.device
) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
