import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from zoo import ROUND, Quadratics, method

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.data import shards
from proxmesh.solver import compile_step as compiling
from proxmesh.solver.compile_step import CompiledStep, pays_off

AGENTS = 4


def problem_of(model: nn.Module | None = None) -> pm.LearningProblem:
    """Few parameters and one layer: what a compiler is busy with is the method."""
    torch.manual_seed(0)
    shards = [
        (torch.randn(9 + i % 3, 5), torch.arange(9 + i % 3) % 2) for i in range(AGENTS)
    ]
    return pm.LearningProblem(
        pm.models.logistic(5, 2) if model is None else model,
        nn.functional.cross_entropy,
        shards,
        regularizer=pm.L1(1e-3),
        batch_size=4,
    )


def stepper(algorithm: Any, problem: Any, graph: pm.Graph) -> tuple[Any, Any, Any]:
    """The plain step, the compiled one, and a state to start from."""
    world = pm.connect(graph)
    state = algorithm.init(problem.x0("different"), problem, world)
    fast = CompiledStep(algorithm, problem, world, state)
    return lambda s: algorithm.step(s, problem, world), fast, state


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every graph that is handed to the compiler."""
    found: list[Any] = []
    compile_it = torch._inductor.compile

    def counted(graph: Any, *arguments: Any, **options: Any) -> Any:
        found.append(graph)
        return compile_it(graph, *arguments, **options)

    monkeypatch.setattr(torch._inductor, "compile", counted)
    return found


QUICK = {"hsm-admm", "deepstorm-v2"}


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in ALGORITHMS],
)
def test_every_method_compiles_once_and_agrees_with_the_plain_step(
    name: str, compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "TABLE_ROWS", 7)  # several tables in one run
    options = {"period": 5, "large_batch": 6} if "-sr-" in name else {}
    if name == "depositum":
        options = {"period": 3}
    algorithm = method(name, **options)
    step, fast, state = stepper(algorithm, problem_of(), pm.graphs.star(AGENTS))
    ours = plain = state
    for _ in range(30):
        ours, plain = fast(ours), step(plain)
    for field in plain.__dataclass_fields__:
        torch.testing.assert_close(
            getattr(ours, field), getattr(plain, field), rtol=1e-9, atol=1e-11
        )
    # Two batch shapes for a method that refreshes its estimate; a pass over whole
    # shards is not a batch and stays as it is. Two for one that talks now and then.
    twice = name in {"prox-gt-sr-o", "depositum"}
    assert len(compilations) == fast.num_graphs == (2 if twice else 1)
    if name == "hsm-admm":
        the_hot_path_is_one_call(compilations[0])


def the_hot_path_is_one_call(compiled: Any) -> None:
    """No power, no hash and no random number is left in what is compiled."""
    names = [str(node.target) for node in compiled.graph.nodes]
    assert not [n for n in names if "pow" in n or "bitwise" in n or "xor" in n]
    assert sum("index_select" in n for n in names) == 2  # inputs and targets


def test_a_run_compiles_and_says_how_long_it_took(compilations: list[Any]) -> None:
    class Watching:
        seconds = 0.0

        def on_prepare(self, what: str) -> None:
            """Nothing to see here."""

        def on_compile(self, seconds: float) -> None:
            self.seconds = seconds

        def on_step(self, k: int, seconds: float) -> None: ...

        def on_row(self, row: Any) -> None: ...

    graph, problem, watching = pm.graphs.ring(AGENTS), problem_of(), Watching()
    first = pm.solve(problem, ROUND, graph, 10, compile=True, observer=watching)
    assert watching.seconds > 0
    assert len(compilations) == 1
    assert first.compiled
    off = pm.solve(problem, ROUND, graph, 10, compile=False)
    assert not off.compiled
    torch.testing.assert_close(first.state.x, off.state.x, rtol=1e-9, atol=1e-11)


@pytest.mark.long
def test_a_compiled_run_repeats_and_resumes_bit_for_bit() -> None:
    graph, problem = pm.graphs.ring(AGENTS), problem_of()
    whole, again = (pm.solve(problem, ROUND, graph, 60, compile=True) for _ in range(2))
    assert torch.equal(whole.state.x, again.state.x)
    part = pm.solve(problem, ROUND, graph, 41, compile=True)
    rest = pm.solve(problem, ROUND, graph, 60 - 41, state=part)
    assert rest.compiled, "as the run that it goes on from"
    assert torch.equal(whole.state.x, rest.state.x)


def test_what_follows_from_k_does_not_depend_on_where_a_run_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A power may differ in its last bit: vectorized, or left over at the end."""
    monkeypatch.setattr(compiling, "TABLE_ROWS", 21)  # sixteen and five
    _, fast, _ = stepper(ROUND, problem_of(), pm.graphs.ring(AGENTS))
    (graph,) = fast._graphs.values()

    def values(begin: int) -> list[Tensor]:
        """The table's values of one k after another, of a run that starts there."""
        found, graph._rows = [], []
        for k in range(begin, 1000):
            if not 0 <= k - graph._first < len(graph._rows):
                graph._fill(k)
            row = graph._rows[k - graph._first]
            found.append(torch.stack([t.double().sum() for t in row]))
        return found[50 - begin :]

    whole = torch.stack(values(0))
    assert all(torch.equal(whole, torch.stack(values(k))) for k in (3, 14, 41))


@pytest.mark.long
def test_images_compile_packed_and_in_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LARGE", 1)
    torch.manual_seed(0)
    pixels = torch.randint(0, 2, (40, 1, 8, 8)).to(torch.get_default_dtype())
    labels = torch.arange(40) % 2
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(27, 2)
    )
    problem = pm.LearningProblem(
        model,
        nn.functional.cross_entropy,
        [(pixels[i::AGENTS], labels[i::AGENTS]) for i in range(AGENTS)],
        batch_size=4,
        vectorize="channels",
    )
    assert isinstance(problem.local_shards.samples, shards.Stored)
    assert isinstance(problem.local_shards.samples.inputs[0], shards.Packed)
    step, fast, state = stepper(ROUND, problem, pm.graphs.ring(AGENTS))
    ours = plain = state
    for _ in range(5):
        ours, plain = fast(ours), step(plain)
    torch.testing.assert_close(ours.x, plain.x, rtol=1e-9, atol=1e-11)


def test_sparse_networks_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pm.graphs, "DENSE_UP_TO", 0)
    monkeypatch.setattr(pm.graphs, "DENSE_FROM", 2.0)
    graph = pm.graphs.ring(AGENTS)
    assert not isinstance(graph.laplacian, np.ndarray)
    step, fast, state = stepper(ROUND, problem_of(), graph)
    ours = plain = state
    for _ in range(4):
        ours, plain = fast(ours), step(plain)
    torch.testing.assert_close(ours.x, plain.x, rtol=1e-9, atol=1e-11)
    assert float(plain.lx.abs().max()) > 0


@pytest.mark.long
def test_float32_agrees_to_rounding() -> None:
    torch.set_default_dtype(torch.float32)
    problem = problem_of(pm.models.mlp(5, 2, hidden=3))
    step, fast, state = stepper(pm.DEEPSTORM(), problem, pm.graphs.ring(AGENTS))
    ours = plain = state
    for _ in range(20):
        ours, plain = fast(ours), step(plain)
    assert ours.x.dtype == torch.float32
    torch.testing.assert_close(ours.x, plain.x, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class Twins:
    """A method whose first state holds one tensor under two names."""

    @dataclass(frozen=True)
    class State:
        k: Tensor
        x: Tensor
        z: Tensor

    def init(self, x0: Tensor, problem: Any, network: Any) -> "Twins.State":
        del problem, network
        return Twins.State(torch.tensor(0), x0, x0)

    def step(self, s: "Twins.State", problem: Any, network: Any) -> "Twins.State":
        del network
        g = problem.grad(s.x, problem.sample(s.k + 1))
        return Twins.State(s.k + 1, s.x - 0.1 * g, s.z + s.x)

    def cost(self, k: int) -> pm.types.Cost:
        del k
        return pm.types.Cost(0, 0, 1)


def test_two_fields_that_are_one_tensor_stay_apart() -> None:
    step, fast, state = stepper(Twins(), problem_of(), pm.graphs.ring(AGENTS))
    ours = plain = state
    for _ in range(3):
        ours, plain = fast(ours), step(plain)
    torch.testing.assert_close(ours.z, plain.z)
    torch.testing.assert_close(ours.x, plain.x)


STABLE = pm.HSMADMM(c_rho=0.5, c_eta=3.0, c_a=1.0)


def solved_uncompiled(problem: Any, message: str, method: Any = STABLE) -> None:
    with pytest.warns(pm.Notice, match=message):
        result = pm.solve(
            problem,
            method,
            pm.graphs.ring(AGENTS),
            steps=4,
            x0=torch.zeros(AGENTS, 2),
            compile=True,
        )
    assert result.outcome is pm.Outcome.FINISHED


def test_a_step_that_branches_on_k_runs_uncompiled() -> None:
    solved_uncompiled(Quadratics.random(AGENTS, 2, 0.1, seed=0), "torch cannot compile")


class Drawing(Quadratics):
    """Draws its noise from a generator that a recording cannot see."""

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> Tensor:
        del k, size, stream
        self.calls.append(0)
        return torch.full((AGENTS, 2, 2), float(len(self.calls)))


@pytest.mark.parametrize(
    "method",
    [
        STABLE,
        pm.ProxGT(estimator="sr-o", alpha=0.01, large_batch=4),
        pm.DPSGD(alpha=1e-3),
    ],
    ids=lambda method: type(method).__name__,
)
def test_an_impure_problem_is_found_out(method: Any) -> None:
    found = Quadratics.random(AGENTS, 2, 0.1, seed=0)
    solved_uncompiled(Drawing(found.a, found.b, 0.1), "gives other numbers", method)


@dataclass(frozen=True)
class Counting(Twins):
    """A method with a plain number in its state."""

    @dataclass(frozen=True)
    class State:
        k: Tensor
        x: Tensor
        steps: float

    def init(self, x0: Tensor, problem: Any, network: Any) -> Any:
        del problem, network
        return Counting.State(torch.tensor(0), x0, 0.0)

    def step(self, s: Any, problem: Any, network: Any) -> Any:
        del network
        g = problem.grad(s.x, problem.sample(s.k + 1))
        return Counting.State(s.k + 1, s.x - 0.1 * g, s.steps + 1.0)


def test_a_state_that_is_not_all_tensors_runs_uncompiled() -> None:
    with pytest.warns(pm.Notice, match="not a dataclass of tensors"):
        result = pm.solve(
            problem_of(), Counting(), pm.graphs.ring(AGENTS), 3, compile=True
        )
    assert result.state.steps == 3.0


def test_what_was_really_done_is_in_the_config(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compiling, "why_no_compiler", lambda: "no C++ compiler was found."
    )
    with pytest.warns(pm.Notice, match="compiler"):
        pm.solve(
            problem_of(),
            ROUND,
            pm.graphs.ring(AGENTS),
            3,
            compile=True,
            out=tmp_path / "run",
            config=lambda run: {"run": {"compile": run.settings.compile}},
        )
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert written["run"] == {"compile": "off"}


def test_without_a_compiler_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiling, "why_no_compiler", lambda: "no C++ compiler was found."
    )
    with pytest.warns(pm.Notice, match=r"no C\+\+ compiler was found") as notices:
        pm.solve(
            problem_of(),
            ROUND,
            pm.graphs.ring(AGENTS),
            3,
            compile=True,
        )
    assert len(notices) == 1


def test_a_missing_compiler_is_noticed() -> None:
    assert compiling.why_no_compiler() is None
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        assert "Install g++" in str(compiling.why_no_compiler())


def test_auto_compiles_what_is_long_enough_and_never_what_it_does_not_know() -> None:
    problem, method = problem_of(), ROUND
    assert not pays_off(method, problem, 2_000)
    assert pays_off(method, problem, 200_000)
    unknown = Quadratics.random(AGENTS, 2, 0.1, seed=0)
    assert not pays_off(method, unknown, 10**9)
    with pytest.raises(pm.InputError, match="unknown value `always` of `compile`"):
        pm.solve(problem, method, pm.graphs.ring(AGENTS), 3, compile="always")  # type: ignore[arg-type]
