"""The whole step as one compiled function, with what depends on k alone taken out.

A step is recorded as a list of tensor operations and cut in two. What follows from the
iteration number alone, step sizes and batch indices, is evaluated for hundreds of
iterations at once; the rest is compiled. An iteration is then one call.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, fx

from proxmesh.solver.state import at_iteration, is_record, reader, rebuilt, tensors_of
from proxmesh.types import (
    Algorithm,
    Branching,
    Problem,
    World,
    advanced,
    branches,
    facts_of,
    reads_lazily,
)

__all__ = ["CompiledStep", "NotCompiledError", "pays_off", "why_no_compiler"]

Advance: TypeAlias = Callable[[Any], Any]
"""From one state to the next."""

aten = torch.ops.aten
GATHERS = {  # their results are large: one iteration at a time
    aten.embedding.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.index_select.default,
}
WIDE = 2**14  # elements that follow from k, such as a mask, that are large as well
TABLE_BYTES = 8 * 2**20
TABLE_ROWS = 1024
AGREEMENT = 1e-3  # of a compiled step with the plain one, to how far that goes
COPIED_UP_TO = 64 * 2**20  # bytes of a state
ROUNDING = 64  # units in the last place beside that

# What a compiled step saves, and costs, on one core of a server; only the order counts.
COMPILE_SECONDS = 10.0
SAVED_SECONDS = 4e-4  # by every iteration
SAVED_SECONDS_OF_WORK = 1.2e-10  # by every gradient, sample and parameter


class NotCompiledError(Exception):
    """The step cannot be compiled; it runs as it is."""


def pays_off(algorithm: Algorithm[Any], problem: Problem, steps: int) -> bool:
    """Whether compiling is likely to save more time than it takes.

    A rule, not a measurement: the same run must be made in the same way every time.
    Convolutions are the library's own and gain nothing.
    """
    told = facts_of(problem)
    if (
        told.p is None
        or told.agents is None
        or told.batch_size is None
        or told.convolves is None
        or told.device is None
    ):
        return False  # not one of ours: it may not be what a recording takes it for
    if reads_lazily(problem):
        return False  # no compiler takes the reading
    if told.convolves or told.device.type != "cpu":
        return False  # tried and tested on CPUs alone
    samples = len(told.agents) * told.batch_size * algorithm.cost(1).gradients
    saved = SAVED_SECONDS + SAVED_SECONDS_OF_WORK * samples * told.p
    return bool(steps * saved > COMPILE_SECONDS)


def why_no_compiler() -> str | None:
    """What keeps torch from compiling on this machine, and what to do; None: nothing.

    On a CPU it needs a C++ compiler, and a cache folder, which it makes when imported.
    """
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler
    except OSError as error:
        return (
            f"torch's cache folder `{error.filename}` cannot be made: "
            f"{error.strerror}. Set TORCHINDUCTOR_CACHE_DIR to another one."
        )
    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError, OSError):
        return "no C++ compiler was found. Install g++, or use `compile=False`."
    return None


@final
class CompiledStep:
    """The step of a method, recorded and compiled once, or once for each branch it has.

    Before it is used, it is held to the plain step at two values of k: a problem that
    draws its batches from somewhere else than k would be frozen in the recording.
    """

    def __init__(
        self, algorithm: Algorithm[Any], problem: Problem, world: World, state: Any
    ) -> None:
        refusal = why_no_compiler()
        if refusal is not None:
            raise NotCompiledError(refusal)
        if reads_lazily(problem):
            raise NotCompiledError(
                "batches are read when they are drawn, which no compiler can record. "
                "Read them at once if they fit: `DatasetShard(..., lazy=False)`."
            )
        if not is_record(state):
            raise NotCompiledError("its state is not a dataclass of tensors.")
        self._algorithm = algorithm
        self._problem = problem
        self._world = world
        self._branching: Branching[Any] | None = None
        if branches(algorithm):
            self._branching = algorithm
        self._graphs: dict[Hashable, _Graph | None] = {}
        self._refusal = ""
        begin = time.perf_counter()
        for k in (state.k, state.k + 1):  # often two branches, if there are any
            self(at_iteration(state, k))
        if not self.num_graphs:
            raise NotCompiledError(self._refusal)
        self.seconds = time.perf_counter() - begin

    @property
    def num_graphs(self) -> int:
        """Compiled functions so far."""
        return sum(graph is not None for graph in self._graphs.values())

    def __call__(self, state: Any) -> Any:
        """Make the next iterate."""
        method: Any = self._algorithm
        if self._branching is not None:
            method = self._branching.at(int(state.k) + 1)
        if method not in self._graphs:
            self._graphs[method] = self._made(method, state)
        graph = self._graphs[method]
        if graph is None:
            return advanced(method, state, self._problem, self._world)
        return graph(state)

    def _made(self, method: Algorithm[Any], state: Any) -> "_Graph | None":
        """Compile one branch; what cannot be compiled runs as it is."""

        def step(current: Any) -> Any:
            return advanced(method, current, self._problem, self._world)

        state = _perturbed(state)
        trials = [at_iteration(state, k) for k in (state.k, state.k + 1)]
        try:
            plain = [_sketch(step(trial), trial) for trial in trials]
            graph = _Graph(step, state)
            for trial, expected in zip(trials, plain, strict=True):
                if not _agree(_sketch(graph(trial), trial), expected):
                    self._refusal = (
                        "recorded, it gives other numbers. Step and problem must be "
                        "pure functions of the state and k."
                    )
                    return None
        except Exception as error:  # the recorder's and compiler's refusals
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._refusal = f"torch cannot compile it: {first.rstrip('.')}."
            return None
        return graph


@final
class _Graph:
    """One recording: a table of what depends on k, and a compiled function."""

    def __init__(self, step: Advance, state: Any) -> None:
        self._kind = type(state)
        self._names = [name for name in tensors_of(state) if name != "k"]
        self._read = reader(self._names)
        recorded = _recorded(step, state, self._names)
        self._constants, self._at_k, rest = _cut(recorded)
        one = self._at_k(state.k)
        self._dtypes = [t.dtype for t in one]
        width = sum(t.numel() * t.element_size() for t in one)
        self._count = max(1, min(TABLE_ROWS, TABLE_BYTES // width))
        self._rows: list[tuple[Tensor, ...]] = []
        self._first = 0  # k of the state that the first row is for
        examples = [*self._tensors(state), *one[1:], *self._constants]
        with torch.no_grad():
            self._call: Any = torch._inductor.compile(
                rest, examples, options={"compile_threads": 1}
            )

    def __call__(self, state: Any) -> Any:
        k = int(state.k)
        if not 0 <= k - self._first < len(self._rows):
            self._fill(k)
        next_k, *at_k = self._rows[k - self._first]
        found = self._call(*self._tensors(state), *at_k, *self._constants)
        named = dict(zip(self._names, found, strict=True))
        return rebuilt(self._kind, {"k": next_k, **named})

    def _tensors(self, state: Any) -> list[Tensor]:
        """All that the compiled function reads of a state."""
        return [tensor.contiguous() for tensor in self._read(state)]

    def _fill(self, k: int) -> None:
        """Evaluate the part of the table that k lies in.

        The parts are the same for every run: vectorized, the last bit of a power
        depends on its place, and a resumed run must agree with a whole one.
        """
        self._first = k - k % self._count
        found = torch.func.vmap(self._at_k)(
            torch.arange(self._first, self._first + self._count)
        )
        columns = [
            column.to(dtype)  # which `vmap` may have promoted
            for column, dtype in zip(found, self._dtypes, strict=True)
        ]
        self._rows = list(zip(*(column.unbind(0) for column in columns), strict=True))


def _recorded(step: Advance, state: Any, names: Sequence[str]) -> fx.GraphModule:
    """Record one step as operations on k and the other tensors of the state."""
    from torch.fx.experimental.proxy_tensor import make_fx  # imports the compiler too

    def flat(k: Tensor, *tensors: Tensor) -> list[Tensor]:
        given = dict(zip(names, tensors, strict=True))
        following = tensors_of(step(rebuilt(type(state), {"k": k, **given})))
        # Views of one another have strides of their own, which the compiler would fix.
        found = [following[name].contiguous() for name in names]
        return [following["k"], *found]

    record = make_fx(
        flat,
        decomposition_table={aten.tanh.default: _tanh},
        tracing_mode="fake",  # on shapes alone, so that it takes no memory
        _allow_non_fake_inputs=True,  # the data
    )
    # The recorder tells tensors apart by identity: a field must be nothing else too.
    tensors = tensors_of(state)
    own = [tensors[name].clone() for name in ("k", *names)]
    with torch.no_grad():
        found: fx.GraphModule = record(*own)
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
    from_k = {k}  # follows from k alone
    for node in graph.nodes:
        if node.op == "call_function":
            sources = set(node.all_input_nodes)
            if _one_at_a_time(node):
                continue
            if sources <= free:
                free.add(node)
            elif sources <= free | from_k:
                from_k.add(node)
    late = [n for n in graph.nodes if n not in from_k and n not in {*inputs, *fixed}]
    used = {source for node in late for source in node.all_input_nodes}
    handed = [
        next_k,
        *(n for n in graph.nodes if n in from_k & used and n is not next_k),
    ]

    at_k = fx.Graph()
    copies = {k: at_k.placeholder("k")}
    for node in graph.nodes:
        if node in free | from_k and node is not k:
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


def _one_at_a_time(node: fx.Node) -> bool:
    """Whether the result is too large to be kept for hundreds of iterations."""
    value = node.meta.get("val")
    wide = isinstance(value, Tensor) and value.numel() > WIDE
    return wide or node.target in GATHERS


def _perturbed(state: Any) -> Any:
    """A state a little off: at the start, fields are equal that later differ.

    One too large for a copy is taken as it is.
    """
    tensors = tensors_of(state)
    rows = {n: v for n, v in tensors.items() if v.is_floating_point()}
    if sum(v.numel() * v.element_size() for v in rows.values()) > COPIED_UP_TO:
        return state
    moved = {}
    for i, (name, value) in enumerate(rows.items()):
        waves = torch.linspace(i, 100, value.numel()).sin().to(value).view_as(value)
        a_number_each = value.ndim > 1 and value.shape[1] == 1  # it may have to be > 0
        moved[name] = value + 0.01 * waves * (value if a_number_each else 1)
    return rebuilt(type(state), {**tensors, **moved})


@final
@dataclass(frozen=True, slots=True)
class _Sketch:
    """A tensor in a few numbers: every row projected, and how exact that can be.

    Two whole states beside the one that a run holds would be the most it ever holds.
    """

    numbers: Tensor
    shape: tuple[Any, ...]
    error: float = 0.0


def _sketch(state: Any, before: Any) -> dict[str, _Sketch]:
    """Sketch a state; errors are measured against the step that was made."""
    found, earlier = {}, tensors_of(before)
    for name, value in tensors_of(state).items():
        shape = (value.dtype, *value.shape)
        if not value.is_floating_point() or value.ndim < 2:
            found[name] = _Sketch(value, shape)
            continue
        rows = value.flatten(1)
        weights = torch.linspace(1, 100, rows.shape[1]).cos().to(rows)
        moved = float((value - earlier[name]).abs().max())
        largest = max(float(value.abs().max()), float(before.x.abs().max()))
        rounding = ROUNDING * torch.finfo(value.dtype).eps * largest
        error = (AGREEMENT * moved + rounding) * math.sqrt(rows.shape[1])
        found[name] = _Sketch(rows @ weights, shape, error)
    return found


def _agree(ours: dict[str, _Sketch], theirs: dict[str, _Sketch]) -> bool:
    """Whether two sketches are the same up to rounding; nan is for the loop to find."""
    return all(
        a.shape == b.shape
        and (
            bool(((a.numbers - b.numbers).abs() <= b.error).all())
            or not (math.isfinite(b.error) and bool(torch.isfinite(b.numbers).all()))
        )
        for a, b in ((ours[name], theirs[name]) for name in theirs)
    )
