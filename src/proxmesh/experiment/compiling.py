"""The whole step as one compiled function, with what depends on k alone taken out.

A step is recorded as a list of tensor operations and cut in two. What follows from the
iteration number alone, step sizes and batch indices, is evaluated for hundreds of
iterations at once; the rest is compiled. An iteration is then one call.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, fx

from proxmesh.errors import Notice
from proxmesh.types import Algorithm

__all__ = ["CompiledStep", "NotCompiledError", "compiled", "has_compiler", "pays_off"]

Step: TypeAlias = Callable[[Any], Any]

aten = torch.ops.aten
GATHERS = {  # their results are large: one iteration at a time
    aten.embedding.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.index_select.default,
}
TABLE_BYTES = 8 * 2**20
TABLE_ROWS = 1024
AGREEMENT = {torch.float32: 1e-4, torch.float64: 1e-10}  # of a step, to its largest

# What a compiled step saves, and costs, on one core of a server; only the order counts.
COMPILE_SECONDS = 10.0
SAVED_SECONDS = 4e-4  # by every iteration
SAVED_SECONDS_OF_WORK = 1.2e-10  # by every gradient, sample and parameter


class NotCompiledError(Exception):
    """The step cannot be compiled; it runs as it is."""


def compiled(step: Step, state: Any, algorithm: Algorithm[Any], end: int) -> Step:
    """Compile a step that is to reach iteration `end`, or say why it runs as it is."""
    try:
        return CompiledStep(step, state, algorithm, end)
    except NotCompiledError as error:
        warnings.warn(f"the step runs uncompiled: {error}", Notice, stacklevel=3)
        return step


def pays_off(algorithm: Algorithm[Any], problem: Any, steps: int) -> bool:
    """Whether compiling is likely to save more time than it takes.

    A rule, not a measurement: the same run must be made in the same way every time.
    Convolutions are the library's own and gain nothing.
    """
    facts = ("p", "agents", "batch_size", "num_samples", "convolves")
    if any(getattr(problem, fact, None) is None for fact in facts):
        return False  # not one of ours: it may not be what a recording takes it for
    if problem.convolves:
        return False
    samples = len(problem.agents) * problem.batch_size * algorithm.cost(1).gradients
    saved = SAVED_SECONDS + SAVED_SECONDS_OF_WORK * samples * problem.p
    return steps * saved > COMPILE_SECONDS and has_compiler()


def has_compiler() -> bool:
    """Whether a C++ compiler is found, which torch needs on a CPU."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError, OSError):
        return False
    return True


@final
class CompiledStep:
    """A step that is recorded and compiled once, or once for each phase it has.

    Before it is used, it is held to the plain step for two iterations: a problem that
    draws its batches from somewhere else than k would be frozen in the recording.
    """

    def __init__(
        self, step: Step, state: Any, algorithm: Algorithm[Any], end: int
    ) -> None:
        if not has_compiler():
            raise NotCompiledError(
                "no C++ compiler was found. Install g++, or use `compile=False`."
            )
        self._step = step
        self._phase = getattr(algorithm, "phase", None)
        self._end = end
        self._graphs: dict[Hashable, _Graph | None] = {}
        self._refusal = ""
        begin = time.perf_counter()
        for _ in range(2):
            following = step(state)
            if not _agree(self(state), following):
                raise NotCompiledError(
                    "recorded, it gives other numbers. Step and problem must be pure "
                    "functions of the state and k."
                )
            state = following
        if not self.num_graphs:
            raise NotCompiledError(self._refusal)
        self.seconds = time.perf_counter() - begin

    @property
    def num_graphs(self) -> int:
        """Compiled functions so far."""
        return sum(graph is not None for graph in self._graphs.values())

    def __call__(self, state: Any) -> Any:
        """Make the next iterate."""
        phase = None if self._phase is None else self._phase(int(state.k) + 1)
        if phase not in self._graphs:
            self._graphs[phase] = self._made(state)
        graph = self._graphs[phase]
        return self._step(state) if graph is None else graph(state, self._end)

    def _made(self, state: Any) -> "_Graph | None":
        """Compile the phase of the next step; what cannot be compiled runs as it is."""
        try:
            return _Graph(self._step, state, branches=self._phase is not None)
        except Exception as error:  # the recorder's and compiler's refusals
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._refusal = f"torch cannot compile it: {first.rstrip('.')}."
            return None


@final
class _Graph:
    """One recording: a table of what depends on k, and a compiled function."""

    def __init__(self, step: Step, state: Any, *, branches: bool) -> None:
        self._kind = type(state)
        self._names = [f.name for f in dataclasses.fields(state)]
        self._names.remove("k")
        recorded = _recorded(step, state, self._names, branches)
        self._constants, self._at_k, rest = _cut(recorded)
        self._rows: list[tuple[Tensor, ...]] = []
        self._first = -1  # k of the state that the first row is for
        tensors = [getattr(state, name).contiguous() for name in self._names]
        self._fill(int(state.k), int(state.k) + 1)
        examples = [*tensors, *self._rows[0][1:], *self._constants]
        with torch.no_grad():
            self._call: Any = torch._inductor.compile(
                rest, examples, options={"compile_threads": 1}
            )
            self._call(*examples)

    def __call__(self, state: Any, end: int) -> Any:
        k = int(state.k)
        if not 0 <= k - self._first < len(self._rows):
            self._fill(k, end)
        next_k, *at_k = self._rows[k - self._first]
        tensors = [getattr(state, name).contiguous() for name in self._names]
        found = self._call(*tensors, *at_k, *self._constants)
        return self._kind(k=next_k, **dict(zip(self._names, found, strict=True)))

    def _fill(self, k: int, end: int) -> None:
        """Evaluate the next rows of the table, from the state of iteration k on."""
        width = sum(t.numel() * t.element_size() for t in self._at_k(torch.tensor(k)))
        count = max(1, min(TABLE_ROWS, TABLE_BYTES // width, end - k))
        columns = torch.func.vmap(self._at_k)(torch.arange(k, k + count))
        self._first = k
        self._rows = list(zip(*(column.unbind(0) for column in columns), strict=True))


def _recorded(
    step: Step, state: Any, names: Sequence[str], branches: bool
) -> fx.GraphModule:
    """Record one step as operations on k and the other tensors of the state."""
    from torch.fx.experimental.proxy_tensor import make_fx  # imports the compiler too

    def flat(k: Tensor, *tensors: Tensor) -> list[Tensor]:
        given = dict(zip(names, tensors, strict=True))
        following = step(type(state)(k=k, **given))
        # Views of one another have strides of their own, which the compiler would fix.
        found = [getattr(following, name).contiguous() for name in names]
        return [following.k, *found]

    seen: set[int] = set()
    tensors = []
    for name in names:
        tensor = getattr(state, name)
        # The recorder tells tensors apart by identity: two fields must not be one.
        tensors.append(tensor.clone() if id(tensor) in seen else tensor.contiguous())
        seen.add(id(tensor))
    record = make_fx(
        flat,
        decomposition_table={aten.tanh.default: _tanh},
        _error_on_data_dependent_ops=not branches,
    )
    with torch.no_grad():
        found: fx.GraphModule = record(state.k.clone(), *tensors)
    found.graph.eliminate_dead_code()
    for node in found.graph.nodes:
        if torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ()):
            raise NotCompiledError(f"`{node.target}` has no fixed shape")
    return found


def _tanh(x: Tensor) -> Any:
    """Tanh from one exponential, which compilers vectorize better than the library's.

    Accurate for small x too, as 1 - exp would not be.
    """
    if x.dtype != torch.float32:
        return NotImplemented
    e = torch.expm1(-2 * x.abs())
    return torch.copysign(-e / (2 + e), x)


def _cut(
    recorded: fx.GraphModule,
) -> tuple[list[Tensor], fx.GraphModule, fx.GraphModule]:
    """Cut a recording into its constants, what follows from k alone, and the rest.

    The rest takes the state's tensors, then what follows from k, then the constants.
    The first of what follows from k is the next k.
    """
    graph = recorded.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    k, *tensors = inputs
    (output,) = (node for node in graph.nodes if node.op == "output")
    next_k, *results = output.args[0]
    fixed = [node for node in graph.nodes if node.op == "get_attr"]

    free = set(fixed)  # follows from nothing
    timely = {k}  # follows from k alone
    for node in graph.nodes:
        if node.op == "call_function":
            sources = set(node.all_input_nodes)
            if sources <= free and node.target not in GATHERS:
                free.add(node)
            elif sources <= free | timely and node.target not in GATHERS:
                timely.add(node)
    late = [n for n in graph.nodes if n not in timely and n not in {*inputs, *fixed}]
    used = {source for node in late for source in node.all_input_nodes}
    handed = [
        next_k,
        *(n for n in graph.nodes if n in timely & used and n is not next_k),
    ]

    at_k = fx.Graph()
    copies = {k: at_k.placeholder("k")}
    for node in graph.nodes:
        if node in free | timely and node is not k:
            copies[node] = at_k.node_copy(node, copies.__getitem__)
    at_k.output(tuple(copies[node] for node in handed))
    at_k.eliminate_dead_code()

    rest = fx.Graph()
    copies = {node: rest.placeholder(node.name) for node in tensors}
    copies |= {node: rest.placeholder(f"at_k_{node.name}") for node in handed[1:]}
    copies |= {node: rest.placeholder(node.name) for node in fixed}
    for node in late:
        if node is not output:
            copies[node] = rest.node_copy(node, copies.__getitem__)
            copies[node].meta = {}  # of the recorder's; the compiler makes its own
    rest.output(tuple(copies[node] for node in results))
    rest.eliminate_dead_code()
    constants = [getattr(recorded, str(node.target)) for node in fixed]
    return constants, fx.GraphModule(recorded, at_k), fx.GraphModule(recorded, rest)


def _agree(ours: Any, theirs: Any) -> bool:
    """Whether two states are the same up to rounding."""
    for field in dataclasses.fields(theirs):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if not b.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        scale = b.abs().max().clamp(min=1.0)
        if not bool(((a - b).abs() <= AGREEMENT.get(b.dtype, 1e-2) * scale).all()):
            return bool(~torch.isfinite(b).all())  # diverged: for the loop to find out
    return True
