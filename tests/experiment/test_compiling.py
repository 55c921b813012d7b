from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from zoo import Quadratics

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.experiment import compiling
from proxmesh.experiment.compiling import CompiledStep, pays_off

AGENTS = 4


def problem_of(agents: int = AGENTS, **options: Any) -> pm.LearningProblem:
    torch.manual_seed(0)
    shards = [
        (torch.randn(9 + i % 3, 5), torch.arange(9 + i % 3) % 2) for i in range(agents)
    ]
    return pm.LearningProblem(
        pm.models.mlp(5, 2, hidden=3),
        nn.functional.cross_entropy,
        shards,
        regularizer=pm.L1(1e-3),
        batch_size=4,
        **options,
    )


def stepper(algorithm: Any, problem: Any, graph: pm.Graph) -> tuple[Any, Any]:
    world = pm.connect(graph)
    state = algorithm.init(problem.x0("different"), problem, world)
    return lambda s: algorithm.step(s, problem, world), state


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


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_compiles_once_and_agrees_with_the_plain_step(
    name: str, compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "TABLE_ROWS", 7)  # several tables in one run
    options = {"period": 5, "large_batch": 6} if "-sr-" in name else {}
    method = ALGORITHMS[name]
    algorithm = method.kind(**{**method.fixed, **options})
    step, state = stepper(algorithm, problem_of(), pm.graphs.star(AGENTS))
    fast = CompiledStep(step, state, algorithm, end=30)
    ours = plain = state
    for _ in range(30):
        ours, plain = fast(ours), step(plain)
    for field in plain.__dataclass_fields__:
        torch.testing.assert_close(
            getattr(ours, field), getattr(plain, field), rtol=1e-9, atol=1e-11
        )
    # Two batch shapes for a method that refreshes its estimate; a pass over whole
    # shards is not a batch and stays as it is.
    assert len(compilations) == fast.num_graphs == (2 if name == "prox-gt-sr-o" else 1)


def test_the_hot_path_is_one_call(compilations: list[Any]) -> None:
    """No power, no hash and no random number is left in what is compiled."""
    algorithm = pm.HSMADMM()
    step, state = stepper(algorithm, problem_of(), pm.graphs.star(AGENTS))
    CompiledStep(step, state, algorithm, end=30)
    names = [str(node.target) for node in compilations[0].graph.nodes]
    assert not [n for n in names if "pow" in n or "bitwise" in n or "xor" in n]
    assert sum("index_select" in n for n in names) == 2  # inputs and targets


def test_a_run_compiles_and_says_how_long_it_took(compilations: list[Any]) -> None:
    class Watching:
        seconds = 0.0

        def on_compile(self, seconds: float) -> None:
            self.seconds = seconds

        def on_step(self, k: int, seconds: float) -> None: ...

        def on_row(self, row: Any) -> None: ...

    graph, problem, watching = pm.graphs.ring(AGENTS), problem_of(), Watching()
    first = pm.solve(problem, pm.HSMADMM(), graph, 10, compile=True, observer=watching)
    assert watching.seconds > 0
    assert len(compilations) == 1
    on = pm.solve(problem, pm.HSMADMM(), graph, 15, state=first, compile=True)
    off = pm.solve(problem, pm.HSMADMM(), graph, 25, compile=False)
    torch.testing.assert_close(on.state.x, off.state.x, rtol=1e-9, atol=1e-11)


def test_a_compiled_run_repeats_bit_for_bit() -> None:
    graph, problem = pm.graphs.ring(AGENTS), problem_of()
    runs = [pm.solve(problem, pm.HSMADMM(), graph, 12, compile=True) for _ in range(2)]
    assert torch.equal(runs[0].state.x, runs[1].state.x)


def test_sparse_networks_compile() -> None:
    graph = pm.graphs.ring(300)
    algorithm, problem = pm.HSMADMM(), problem_of(300)
    step, state = stepper(algorithm, problem, graph)
    fast = CompiledStep(step, state, algorithm, end=4)
    ours = plain = state
    for _ in range(4):
        ours, plain = fast(ours), step(plain)
    torch.testing.assert_close(ours.x, plain.x, rtol=1e-9, atol=1e-11)
    assert float(plain.lx.abs().max()) > 0


def test_float32_agrees_to_rounding() -> None:
    torch.set_default_dtype(torch.float32)
    algorithm = pm.DEEPSTORM()
    step, state = stepper(algorithm, problem_of(), pm.graphs.ring(AGENTS))
    fast = CompiledStep(step, state, algorithm, end=20)
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
    step, state = stepper(Twins(), problem_of(), pm.graphs.ring(AGENTS))
    fast = CompiledStep(step, state, Twins(), end=3)
    ours = plain = state
    for _ in range(3):
        ours, plain = fast(ours), step(plain)
    torch.testing.assert_close(ours.z, plain.z)
    torch.testing.assert_close(ours.x, plain.x)


def solved_uncompiled(problem: Any, message: str) -> None:
    with pytest.warns(pm.Notice, match=message):
        result = pm.solve(
            problem,
            pm.HSMADMM(c_rho=0.5, c_eta=3.0),
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


def test_an_impure_problem_is_found_out() -> None:
    found = Quadratics.random(AGENTS, 2, 0.1, seed=0)
    solved_uncompiled(Drawing(found.a, found.b, 0.1), "gives other numbers")


def test_without_a_compiler_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "has_compiler", lambda: False)
    with pytest.warns(pm.Notice, match=r"no C\+\+ compiler was found") as notices:
        pm.solve(problem_of(), pm.HSMADMM(), pm.graphs.ring(AGENTS), 3, compile=True)
    assert len(notices) == 1


def test_a_missing_compiler_is_noticed() -> None:
    assert compiling.has_compiler()
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        assert not compiling.has_compiler()


def test_auto_compiles_what_is_long_enough_and_never_what_it_does_not_know() -> None:
    problem, method = problem_of(), pm.HSMADMM()
    assert not pays_off(method, problem, 2_000)
    assert pays_off(method, problem, 200_000)
    unknown = Quadratics.random(AGENTS, 2, 0.1, seed=0)
    assert not pays_off(method, unknown, 10**9)
    with pytest.raises(pm.InputError, match="unknown value `always` of `compile`"):
        pm.solve(problem, method, pm.graphs.ring(AGENTS), 3, compile="always")  # type: ignore[arg-type]
