"""What ranks do in the tests of the distributed engines; run by `ranks.Ranks`."""

import itertools
import os
import random
import signal
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from delayed import DelayedLink
from scipy.sparse import csr_array
from torch import nn
from torch.optim.lr_scheduler import StepLR
from zoo import ROUND, method

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.cli import main

AGENTS = 4
SIZES = (30, 9, 60, 21)
STEPS = 100
GRAPHS = ("ring", "star", "barabasi-albert")
OPTIONS: dict[str, dict[str, Any]] = {
    "hsm-admm-blind": {"c_eta": 2.0},
    "hsm-admm-direct": {"c_eta": 2.0},  # a long step would amplify rounding
    "cdprox-sgt": {"compressor": pm.compressors.Identity()},  # which does not round
}


def linear(features: int, outputs: int) -> nn.Module:
    return nn.Linear(features, outputs, dtype=torch.float64)


@cache
def problem(**options: Any) -> pm.LearningProblem:
    """Classification with a hidden layer on unequal shards, float64."""
    torch.manual_seed(0)
    x = torch.randn(sum(SIZES) + 30, 30, dtype=torch.float64)
    y = (x[:, :3].sum(1) > 0).long()
    starts = [0, *itertools.accumulate(SIZES)]
    return pm.LearningProblem(
        nn.Sequential(linear(30, 3), nn.Tanh(), linear(3, 2)),
        nn.functional.cross_entropy,
        [(x[a:b], y[a:b]) for a, b in itertools.pairwise(starts)],
        test=(x[sum(SIZES) :], y[sum(SIZES) :]),
        regularizer=pm.L1(1e-3),
        **{"batch_size": 4, "vectorize": True, "paired": True, **options},
    )


def solved(graph: str, name: str, engine: str = "auto") -> pm.Result:
    world = pm.connect(
        pm.graphs.make(graph, AGENTS), engine, dtype=torch.float64, timeout=30
    )
    return pm.solve(
        local_problem(world.agents),
        method(name, **OPTIONS.get(name, {})),
        pm.graphs.make(graph, AGENTS),
        STEPS,
        eval_every=STEPS,
        engine=world,
        compile=False,
    )


@cache
def local_problem(agents: tuple[int, ...]) -> pm.LearningProblem:
    found = problem().local(agents)
    found.num_agents = AGENTS
    return found


def dealt(ranks: int) -> list[str]:
    """The methods that so many ranks run: a third, all three together every one."""
    everything = "PROXMESH_FULL_PARITY" in os.environ
    return list(ALGORITHMS) if everything else list(ALGORITHMS)[ranks % 3 :: 3]


def parity(folder: Path, graphs: str) -> None:
    """Methods on these graphs; the rows and the history of each."""
    found = {}
    for graph in graphs.split(","):
        for name in dealt(ranks()):
            result = solved(graph, name)
            history = result.history.drop(columns="seconds")
            found[graph, name] = {
                "agents": list(result.problem.agents),
                "x": result.state.x,
                "columns": list(result.history),
                "history": torch.tensor(history.to_numpy()),
            }
    torch.save(found, folder / f"{rank()}.pt")


def stress(folder: Path, exchanges: str = "1500") -> None:
    """Random graphs, several exchanges in flight, read in any order, or not at all."""
    draw = random.Random(1)
    torch.manual_seed(1)
    left = int(exchanges)
    while left > 0:
        n = draw.randint(max(2, ranks()), 12)
        graph = pm.graphs.erdos_renyi(n, seed=draw.randrange(1000))
        width = draw.choice([1, 7, 500])
        world = pm.connect(graph, dtype=torch.float64, timeout=30)
        exact = pm.connect(graph, "simulated", dtype=torch.float64)
        mine = list(world.agents)
        for _ in range(100):
            flights = [
                torch.randn(n, width).double() for _ in range(draw.randint(1, 3))
            ]
            sent = [world.exchange(x[mine]) for x in flights]
            order = list(range(len(sent)))
            draw.shuffle(order)
            for i in order[draw.random() < 0.1 :]:
                kind = draw.choice(["laplacian", "mix"])
                expected = getattr(exact.exchange(flights[i]), kind)()[mine]
                torch.testing.assert_close(getattr(sent[i], kind)(), expected)
            left -= len(sent)
    (folder / f"{rank()}.done").touch()


def lose(folder: Path, how: str) -> None:
    """Rank 1 goes in the middle of a run."""

    def accident(row: Any, state: Any) -> None:
        del row, state
        if rank() != 1:
            return
        (folder / "accident").touch()
        if how == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "hang":
            time.sleep(3600)
        raise ValueError("the disk is full")

    pm.solve(
        problem(),
        ROUND,
        pm.graphs.ring(AGENTS),
        STEPS,
        eval_every=20,
        callbacks=[accident],
        timeout=3,
    )


def diverge(folder: Path) -> None:
    """One agent's huge inputs make its model blow up; all stop at the same k."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(AGENTS, 20, 3).double(), torch.zeros(AGENTS, 20)
    inputs[2] *= 1e60
    squares = pm.LearningProblem(
        linear(3, 1),
        lambda out, target: (out[:, 0] - target).square().mean(),
        list(zip(inputs, targets.double(), strict=True)),
        batch_size=4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.Notice)
        result = pm.solve(
            squares,
            ROUND,
            pm.graphs.ring(AGENTS),
            STEPS,
            eval_every=10,
            timeout=20,
        )
    (folder / f"{rank()}.outcome").write_text(f"{result.outcome} {result.message}")


def differ(folder: Path) -> None:
    """Rank 1 was started with something else, one thing after another."""
    for what in ("seed", "graph", "steps", "method", "model"):
        try:
            _started_otherwise(what)
        except pm.InputError as error:
            (folder / f"{rank()}.{what}").write_text(str(error))


def _started_otherwise(what: str) -> None:
    odd = rank() == 1
    mine = problem(seed=1) if odd and what == "seed" else problem()
    if odd and what == "model":
        mine = pm.LearningProblem(
            linear(30, 2),
            nn.functional.cross_entropy,
            [mine.local_shards.of_agent(i) for i in range(AGENTS)],
            regularizer=pm.L1(1e-3),
            batch_size=4,
        )
    graph = pm.graphs.star(AGENTS) if odd and what == "graph" else pm.graphs.ring(4)
    steps = 7 if odd and what == "steps" else 5
    algorithm = pm.HSMADMM(c_rho=0.1) if odd and what == "method" else ROUND
    pm.solve(mine, algorithm, graph, steps, timeout=20)


def going_on(folder: Path) -> None:
    """Half a run, its state through a file, the other half: the same as one run."""
    options: Any = {"graph": pm.graphs.ring(AGENTS), "eval_every": 20, "timeout": 20}
    whole = pm.solve(problem(), ROUND, steps=40, **options)
    half = pm.solve(problem(), ROUND, steps=20, **options)
    fields = {name: getattr(half.state, name) for name in half.state.__slots__}
    torch.save(fields, folder / f"{rank()}.state")
    again = type(half.state)(**torch.load(folder / f"{rank()}.state"))
    rest = pm.solve(problem(), ROUND, steps=20, state=again, **options)
    assert torch.equal(rest.state.x, whole.state.x)
    assert rest.final["bytes_sent"] == whole.final["bytes_sent"]


def lazy(folder: Path) -> None:
    """Shards that are read by index and augmented, as in the simulation."""
    del folder
    whole = problem()

    def noisy(sample: Any, generator: torch.Generator | None) -> Any:
        inputs, target = sample
        if generator is not None:
            inputs = inputs + torch.randn(30, generator=generator, dtype=torch.float64)
        return inputs, target

    def shard(agent: int) -> pm.DatasetShard:
        return pm.DatasetShard(whole.local_shards.of_agent(agent), transform=noisy)

    def augmented(shards: Any) -> pm.LearningProblem:
        torch.manual_seed(0)
        model = nn.Sequential(linear(30, 3), nn.Tanh(), linear(3, 2))
        options: Any = {"batch_size": 4, "vectorize": True, "paired": True}
        return pm.LearningProblem(model, nn.functional.cross_entropy, shards, **options)

    graph, steps = pm.graphs.star(AGENTS), 15
    options: Any = {"eval_every": steps, "compile": False}
    every = augmented([shard(agent) for agent in range(AGENTS)])
    expected = pm.solve(every, ROUND, graph, steps, engine="simulated", **options)
    plain = pm.solve(whole, ROUND, graph, steps, engine="simulated", **options)
    assert (expected.state.x - plain.state.x).abs().max() > 1e-3
    for shards in (shard, [shard(agent) for agent in range(AGENTS)]):
        mine_alone = augmented(shards)
        ours = pm.solve(mine_alone, ROUND, graph, steps, timeout=20, **options)
        mine = list(ours.problem.agents)
        theirs = expected.state.x[mine]
        torch.testing.assert_close(ours.state.x, theirs, rtol=0, atol=1e-10)
        batch = ours.problem.sample(7).inputs[0]
        assert torch.equal(batch, every.sample(7).inputs[0][mine])
        ours.problem.stop_reading()
    every.stop_reading()


def sparse(folder: Path) -> None:
    """Sparse shards, and wide weights, as dense ones in the simulation."""
    del folder
    draw = np.random.default_rng(3)
    dense = [
        np.where(draw.random((9, 40)) < 0.1, draw.random((9, 40)), 0)
        for _ in range(AGENTS)
    ]
    labels = [torch.from_numpy(draw.integers(0, 2, 9)) for _ in range(AGENTS)]

    def built(form: Any, **options: Any) -> pm.LearningProblem:
        torch.manual_seed(0)
        model = pm.models.mlp(40, 2, hidden=3).double()
        shards = [(form(x), y) for x, y in zip(dense, labels, strict=True)]
        return pm.LearningProblem(
            model, nn.functional.cross_entropy, shards, batch_size=4, **options
        )

    graph = pm.graphs.star(AGENTS)
    options: Any = {"eval_every": 10, "compile": False}
    plain = built(torch.from_numpy, sparse="dense")
    expected = pm.solve(plain, ROUND, graph, 10, engine="simulated", **options)
    ours = pm.solve(built(csr_array), ROUND, graph, 10, timeout=20, **options)
    assert ours.problem.sparse is not None
    theirs = expected.state.x[list(ours.problem.agents)]
    torch.testing.assert_close(ours.state.x, theirs, rtol=0, atol=1e-12)


def automatic(folder: Path) -> None:
    """Constants that nobody gave, and what the monitor sees, as in the simulation."""
    del folder
    options: Any = {"eval_every": 10, "compile": False, "monitor": "theory"}
    graph = pm.graphs.star(AGENTS)
    whole = pm.solve(problem(), pm.HSMADMM(), graph, 20, engine="simulated", **options)
    ours = pm.solve(problem(), pm.HSMADMM(), graph, 20, timeout=20, **options)
    assert ours.algorithm == whole.algorithm
    mine = list(ours.problem.agents)
    torch.testing.assert_close(ours.state.x, whole.state.x[mine], rtol=0, atol=1e-10)
    assert ours.monitor is not None
    assert whole.monitor is not None
    for here, there in zip(ours.monitor.rows, whole.monitor.rows, strict=True):
        for name, value in there.items():
            assert abs(here[name] - value) <= 1e-9 * max(1.0, abs(value)), name


LINKS = pm.links
IMPERFECT: list[tuple[str, list[Any]]] = [
    ("hsm-admm", [LINKS.Loss(0.3), LINKS.Compressed(LINKS.Bits(4))]),
    ("hsm-admm", [LINKS.Loss(0.3, known=False), LINKS.Delay(1)]),
    ("hsm-admm", [LINKS.Delay(2, random=True), LINKS.Participation(0.7)]),
    ("hsm-admm", [LINKS.Every(3), LINKS.Outages(0.7)]),
    ("hsm-admm", [LINKS.GilbertElliott(0.3), LINKS.Noise(1e-3), LINKS.Delay(1)]),
    ("hsm-admm", [LINKS.Schedule([[(0, 1)], [(0, 2), (0, 3)]]), LINKS.Speeds([1, 2])]),
    ("deepstorm-v2", [LINKS.Loss(0.3, known=False)]),
    ("prox-gt-sa", [LINKS.Compressed(LINKS.RandomK(0.3))]),
    ("sppdm", [LINKS.GilbertElliott(0.3, known=False)]),
    ("hsm-admm", [LINKS.Delay(2, random=True), LINKS.Compressed(LINKS.TopK(0.2))]),
    ("hsm-admm", [LINKS.Every(2), LINKS.Compressed(LINKS.Sign())]),
    (
        "hsm-admm",
        [LINKS.Outages(0.6), LINKS.Compressed(LINKS.Pow2()), LINKS.Every(2)],
    ),
    ("deepstorm-v2", [LINKS.Participation(0.7), LINKS.Compressed(LINKS.Identity())]),
    ("sppdm", [LINKS.Delay(2), LINKS.Compressed(LINKS.Bits(5, stochastic=True))]),
]


def links(folder: Path) -> None:
    """The same messages are lost, late and compressed as in the simulation."""
    del folder
    graph = pm.graphs.star(AGENTS)
    for name, models in IMPERFECT:
        options: Any = {"links": models, "eval_every": 20, "compile": False}
        chosen = method(name)
        whole = pm.solve(problem(), chosen, graph, 20, engine="simulated", **options)
        ours = pm.solve(problem(), chosen, graph, 20, timeout=20, **options)
        assert ours.algorithm == whole.algorithm
        theirs = whole.state.x[list(ours.problem.agents)]
        torch.testing.assert_close(ours.state.x, theirs, rtol=0, atol=1e-10)
        assert ours.final["bytes_sent"] == whole.final["bytes_sent"]


class Targets:
    """``|x - t_i|^2 / 2`` with targets that differ between agents."""

    def __init__(self, agents: Any, p: int) -> None:
        draw = torch.Generator().manual_seed(0)
        every = torch.randn(max(agents) + 1, p, generator=draw, dtype=torch.float64)
        self.targets = every[list(agents)]

    def sample(self, k: Any, size: Any = None, stream: int = 0) -> None:
        del k, size, stream

    def grad(self, x: torch.Tensor, batch: None) -> torch.Tensor:
        del batch
        return x - self.targets

    def prox(self, z: torch.Tensor, step: Any) -> torch.Tensor:
        del step
        return z


def packed(folder: Path) -> None:
    """What leaves a process is as short as it is counted; one agent lives on each."""
    del folder
    graph, p = pm.graphs.path(ranks()), 401
    kinds: list[list[Any]] = [
        [LINKS.Compressed(LINKS.Bits(4))],
        [LINKS.Compressed(LINKS.TopK(0.1)), LINKS.Delay(1)],
        [LINKS.Loss(0.3), LINKS.Compressed(LINKS.Bits(3))],
        [LINKS.Every(3)],
        [LINKS.Loss(0.3, known=False)],
    ]
    for models in kinds:
        world: Any = pm.connect(graph, dtype=torch.float64, timeout=20, links=models)
        engine = world.joined
        recording = engine.link = Recording(engine.link)
        mine = Targets(world.agents, p)
        method_here: Any = ROUND
        if world.plan.silent is not None:
            method_here = pm.DEEPSTORM()
        state = world.start(method_here, torch.zeros_like(mine.targets), mine)
        begun, expected = len(recording.sent), 0
        for k in range(1, 9):
            state = world.advance(method_here, state, mine)
            cost = method_here.cost(k)
            each = -(-int(world.message_bits(k, p, 64)) // 8)
            expected += cost.vectors * each * graph.degrees[rank()]
        sent = recording.sent[begun:]
        assert sum(part.numel() * part.element_size() for part in sent) == expected
        again = world.advance(method_here, state, mine)
        world.copies.clear()  # as after a resume: everything is sent anew
        whole = world.advance(method_here, state, mine)
        assert torch.equal(again.x, whole.x)


def clocked(folder: Path) -> None:
    """Messages that really are late take as long as the model of the network says."""
    del folder
    graph, steps = pm.graphs.ring(AGENTS), 3
    slow: list[Any] = [LINKS.Latency("200ms"), LINKS.Bandwidth("100kbit")]
    options: Any = {"eval_every": steps, "compile": False}
    for name in ("hsm-admm", "deepstorm-v2"):
        chosen = method(name)
        plain = pm.solve(
            problem(), chosen, graph, steps, engine="simulated", links=slow, **options
        )
        table = plain.history["simulated_seconds"]
        modelled = float(table.iloc[-1] - table.iloc[0])
        least = float("inf")
        for _ in range(3):  # whatever else this machine does comes on top
            world: Any = pm.connect(graph, dtype=torch.float64, timeout=20, links=slow)
            world.joined.link = DelayedLink(world.joined.link, 0.2, 1e5)
            mine = local_problem(world.agents)
            late = pm.solve(mine, chosen, graph, steps, engine=world, **options)
            least = min(least, float(late.final["seconds"]))
            if least < 1.1 * modelled:  # all ranks have the root's row
                break
        assert 0.9 * modelled < least < 1.1 * modelled, (name, least, modelled)


def dropping(folder: Path) -> None:
    """Masks of dropout are those of the simulation, on ranks with a few agents each."""
    del folder
    given = problem()
    dropping = pm.LearningProblem(
        nn.Sequential(linear(30, 3), nn.Dropout(0.4), nn.Tanh(), linear(3, 2)),
        nn.functional.cross_entropy,
        [given.local_shards.of_agent(i) for i in range(AGENTS)],
        batch_size=4,
    )
    graph = pm.graphs.star(AGENTS)
    whole = pm.solve(dropping, ROUND, graph, 30, engine="simulated", compile=False)
    ours = pm.solve(dropping, ROUND, graph, 30, timeout=20, compile=False)
    mine = list(ours.problem.agents)
    assert len(mine) < AGENTS
    torch.testing.assert_close(ours.state.x, whole.state.x[mine], rtol=0, atol=1e-10)


def optimizer(folder: Path) -> None:
    """The user's own loop makes the same iterates as `solve`, also after a reload."""
    graph, steps = pm.graphs.star(AGENTS), 30
    whole = pm.solve(problem(), pm.HSMADMM(c_rho=0.1, c_eta=0.3, c_a=1.0), graph, steps)
    mine = whole.problem
    model = mine.module(problem().x0()[0])
    weights = list(model.parameters())

    def made() -> pm.optim.HSMADMM:
        return pm.optim.HSMADMM(
            weights, graph, regularizer=pm.L1(1e-3), timeout=20,
            c_rho=0.1, c_eta=0.3, c_a=1.0,
        )  # fmt: skip

    opt = made()
    assert (opt.agent,) == mine.agents
    calls = []
    for k in range(steps + 1):
        if k == 15:  # as a checkpoint would
            torch.save(opt.state_dict(), folder / f"{rank()}.opt")
            opt = made()
            opt.load_state_dict(torch.load(folder / f"{rank()}.opt"))
        batch = mine.sample(k)

        def closure(opt: Any = opt, batch: Any = batch) -> torch.Tensor:
            opt.zero_grad()
            calls.append(float(torch.rand(())))  # the same number in both calls
            loss: torch.Tensor = nn.functional.cross_entropy(
                model(batch.inputs[0][0]), batch.targets[0]
            )
            loss.backward()
            return loss

        before = [w.detach().clone() for w in weights]
        loss = opt.step(closure)
        assert loss.requires_grad
        if k == 0:
            for old, new in zip(before, weights, strict=True):
                assert torch.equal(old, new)
    assert len(calls) == 2 * steps + 1
    assert calls[1::2] == calls[2::2]
    assert calls[1] != calls[3]
    row = torch.cat([w.detach().reshape(-1) for w in weights])
    torch.testing.assert_close(row, whole.state.x[0], rtol=0, atol=1e-10)
    opt.average_()
    mean = torch.cat([w.detach().reshape(-1) for w in weights])
    torch.testing.assert_close(mean, whole.means["x"], rtol=0, atol=1e-10)
    _finds_constants(weights, graph, model, mine, folder)


def _finds_constants(
    weights: Any, graph: pm.Graph, model: nn.Module, mine: Any, folder: Path
) -> None:
    """The optimizer without constants: the same on all ranks, kept in its state."""
    opt = pm.optim.HSMADMM(weights, graph, regularizer=pm.L1(1e-3), timeout=20)
    batch = mine.sample(0)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        outputs = model(batch.inputs[0][0])
        loss: torch.Tensor = nn.functional.cross_entropy(outputs, batch.targets[0])
        loss.backward()
        return loss

    before = [w.detach().clone() for w in weights]
    first = float(opt.step(closure).detach())
    for old, new in zip(before, weights, strict=True):
        assert torch.equal(old, new)  # looking around moves nothing
    for _ in range(10):  # and looks again after the eighth
        last = float(opt.step(closure).detach())
    assert last < 2 * first
    found = {n: opt.param_groups[0][n] for n in ("c_rho", "c_eta", "smoothness")}
    assert all(isinstance(value, float) for value in found.values())
    rho = float(opt.state[opt.param_groups[0]["params"][0]]["rho"])
    assert rho != found["c_rho"]
    (folder / f"{rank()}.constants").write_text(str({**found, "rho": rho}))
    torch.save(opt.state_dict(), folder / f"{rank()}.opt")
    again = pm.optim.HSMADMM(weights, graph, regularizer=pm.L1(1e-3), timeout=20)
    again.load_state_dict(torch.load(folder / f"{rank()}.opt"))
    assert {n: again.param_groups[0][n] for n in found} == found


def door(folder: Path) -> None:
    """Schedulers, state dicts, accumulation and mixed precision in a user's loop."""
    constants: Any = {"c_rho": 0.1, "c_eta": 0.3, "c_a": 1.0}
    plain = _trained(constants)
    assert torch.equal(plain, _trained(constants, lr=1.0))
    longer = _trained({**constants, "c_eta": 0.6})
    assert torch.equal(_trained(constants, lr=0.5), longer)  # lr multiplies 1/eta
    assert torch.equal(plain, _trained(constants, way="scaled"))
    pieces = _trained(constants, way="accumulated")
    torch.testing.assert_close(plain, pieces, rtol=0, atol=1e-12)
    scheduled = _trained(constants, scheduled=True)
    assert not torch.equal(plain, scheduled)
    file = folder / f"{rank()}.door"
    assert torch.equal(scheduled, _trained(constants, scheduled=True, through=file))
    _mixed_precision()


def _trained(
    constants: Any,
    lr: float = 1.0,
    way: str = "plain",
    scheduled: bool = False,
    through: Path | None = None,
) -> torch.Tensor:
    """Twelve steps on this rank's shard; the parameters after them."""
    agent = rank()
    model = problem().module(problem().x0()[agent])
    weights = list(model.parameters())
    graph = pm.graphs.star(AGENTS)

    def made() -> tuple[pm.optim.HSMADMM, StepLR]:
        opt = pm.optim.HSMADMM(weights, graph, lr=lr, timeout=20, **constants)
        return opt, StepLR(opt, 4)

    opt, scheduler = made()
    scaler = torch.amp.GradScaler("cpu")
    for k in range(12):
        if k == 7 and through is not None:  # as a checkpoint would
            held = {"opt": opt.state_dict(), "scheduler": scheduler.state_dict()}
            torch.save(held, through)
            opt, scheduler = made()
            found = torch.load(through, weights_only=True)
            opt.load_state_dict(found["opt"])
            scheduler.load_state_dict(found["scheduler"])
        batch = problem().sample(k)
        inputs, targets = batch.inputs[0][agent], batch.targets[agent]

        def closure(
            opt: Any = opt, inputs: Any = inputs, targets: Any = targets
        ) -> torch.Tensor:
            opt.zero_grad()
            pieces = 2 if way == "accumulated" else 1
            total = torch.zeros((), dtype=torch.float64)
            for x, y in zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True):
                loss = nn.functional.cross_entropy(model(x), y) / pieces
                if way == "scaled":
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                total += loss.detach()
            for w in weights if way == "scaled" else ():
                assert w.grad is not None
                w.grad /= scaler.get_scale()
            return total

        opt.step(closure)
        if scheduled:
            scheduler.step()
    if scheduled:
        assert abs(opt.param_groups[0]["lr"] - 1e-3) < 1e-12
    return torch.cat([w.detach().reshape(-1) for w in weights])


def _mixed_precision() -> None:
    """The losses in bfloat16, the parameters and the method's state in float32."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 3), nn.Tanh(), nn.Linear(3, 2)).float()
    graph = pm.graphs.star(AGENTS)
    opt = pm.optim.HSMADMM(
        model.parameters(), graph, timeout=20, c_rho=0.1, c_eta=0.3, c_a=1.0
    )
    batch = problem().sample(0)
    inputs, targets = batch.inputs[0][opt.agent].float(), batch.targets[opt.agent]

    def closure() -> torch.Tensor:
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(inputs)
            assert outputs.dtype == torch.bfloat16
            loss: torch.Tensor = nn.functional.cross_entropy(outputs, targets)
        loss.backward()
        return loss

    losses = [float(opt.step(closure).detach()) for _ in range(20)]
    assert losses[-1] < losses[0]
    held = opt.state[next(iter(model.parameters()))]
    assert held["v"].dtype == torch.float32
    opt.param_groups[0]["lr"] = 0.0
    with pytest.raises(pm.InputError, match="`lr` must be positive"):
        opt.step(closure)


class Recording:
    """A link that keeps a copy of everything that is sent."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self.sent: list[torch.Tensor] = []

    def start(self, sends: Any, receives: Any) -> Any:
        self.sent += [part.clone() for part in sends]
        return self._link.start(sends, receives)


def traffic(folder: Path) -> None:
    """Only documented vectors cross a process boundary, and nothing is reduced."""
    del folder
    graph = pm.graphs.ring(AGENTS)
    for name in ALGORITHMS:
        world: Any = pm.connect(graph, dtype=torch.float64, timeout=20)
        local, algorithm = problem().local(world.agents), method(name)
        server = ALGORITHMS[name].server  # references that say so
        state = algorithm.init(local.x0(), local, world)
        reduced: list[int] = []
        transport = world.watch.transport
        reduce = type(transport).reduce
        recording = world.link = Recording(world.link)
        type(transport).reduce = lambda self, x, op, reduce=reduce, reduced=reduced: (
            reduced.append(x.numel()) or reduce(self, x, op)
        )
        try:
            for k in range(1, 6):
                before = len(recording.sent)
                state = algorithm.step(state, local, world)
                parts = recording.sent[before:]
                rows = sum(part.numel() for part in parts) // local.p
                mine = world.placement.sent
                crossing = sum(
                    len(mine(rank(), peer)) for peer in world.placement.peers(rank())
                )
                assert rows == algorithm.cost(k).vectors * crossing, name
                if name.startswith("hsm-admm"):
                    for part in parts:  # nothing but rows of the new x
                        for row in part:
                            assert any(torch.equal(row, x) for x in state.x), name
        finally:
            type(transport).reduce = reduce
        assert server or not reduced, name


def alone(folder: Path) -> None:
    """`evaluation="local"` reduces no number of any agent, only yes and no."""
    world: Any = pm.connect(pm.graphs.ring(AGENTS), dtype=torch.float64, timeout=20)
    sizes: list[int] = []
    reduce = type(world.watch.transport).reduce

    def noting(self: Any, x: torch.Tensor, op: str) -> Any:
        if x.is_floating_point():
            sizes.append(x.numel())
            values = x.flatten().tolist()
            # A beat: stop? three words about checkpoints, and seconds since the last.
            assert len(values) in {1, 2, 5}, values
            assert set(values[:-1]) <= {0.0, 1.0}, values
            assert values[0] in {0.0, 1.0, sum(SIZES) / AGENTS} or op == "sum", values
        return reduce(self, x, op)

    type(world.watch.transport).reduce = noting
    mine = problem().local(world.agents)
    mine.num_agents = None
    try:
        result = pm.solve(
            mine,
            ROUND,
            pm.graphs.ring(AGENTS),
            20,
            init="different",  # else the root's initial model goes to everyone
            eval_every=10,
            engine=world,
            evaluation="local",
            out=folder / "run",
        )
    finally:
        type(world.watch.transport).reduce = reduce
    assert sizes
    assert set(result.history["agent"]) == set(world.agents)
    assert "consensus" not in result.history
    assert result.model is None
    whole = pm.solve(
        problem(),
        ROUND,
        pm.graphs.ring(AGENTS),
        20,
        init="different",
        engine="simulated",
    )
    own = whole.problem.evaluate(whole.state.x).loss[list(world.agents)]
    last = result.history.groupby("agent")["train_loss"].last().to_numpy()
    torch.testing.assert_close(torch.tensor(last), own, rtol=0, atol=1e-10)


def compiled(folder: Path) -> None:
    """Compiled gradients change nothing but the speed."""
    del folder
    graph = pm.graphs.ring(AGENTS)
    for name in ("hsm-admm", "d-psgd"):
        plain, fast = (
            pm.solve(problem(), method(name), graph, 20, compile=way, timeout=60)
            for way in (False, True)
        )
        assert (plain.compiled, fast.compiled) == (False, True)
        torch.testing.assert_close(fast.state.x, plain.state.x, rtol=0, atol=1e-10)
        assert list(fast.history) == list(plain.history)


class Quiet:
    """A regularizer of a user's own, which does not say what it is."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(len(x))

    def prox(self, z: torch.Tensor, step: Any) -> torch.Tensor:
        del step
        return z.clone()


def scripts(folder: Path) -> None:
    """What users' scripts do, one thing after another in the same processes."""
    del folder
    graph, shards = pm.graphs.ring(AGENTS), problem()
    world: Any = pm.connect(graph, dtype=torch.float64, timeout=20)
    mine = {agent: shards.local_shards.of_agent(agent) for agent in world.agents}
    own = pm.LearningProblem(  # a rank gives its own agents' data only
        linear(30, 2), nn.functional.cross_entropy, mine, regularizer=Quiet()
    )

    def enough(row: Any, state: Any) -> None:
        del row, state
        raise StopIteration("enough")

    try:  # all ranks raise, and the script goes on
        pm.solve(own, ROUND, graph, 20, callbacks=[enough], timeout=20)
    except StopIteration:
        time.sleep(0.3 * rank())
    result = pm.solve(own, ROUND, graph, 20, eval_every=20, timeout=20)
    assert result.outcome is pm.Outcome.FINISHED

    clocks = pm.solve(  # each rank has a clock, but only one counts
        own,
        ROUND,
        graph,
        200,
        eval_every=1,
        target={"seconds": 1e-3},  # some are below it, some are not
        compile=False,
        timeout=20,
    )
    assert clocks.outcome in {pm.Outcome.TARGET_REACHED, pm.Outcome.FINISHED}

    x = torch.ones(len(world.agents), 3, dtype=torch.float64)
    sent = world.exchange(x)
    x.add_(1)
    try:
        sent.laplacian()
    except pm.InputError as error:
        assert "changed in place" in str(error)  # noqa: PT017
    else:
        raise AssertionError("an exchange of changed rows went unnoticed")


def own_files(folder: Path) -> None:
    """`proxmesh run` on files of agents; which of them were opened is written down."""
    data = str(folder / "data")
    log = (folder / f"{rank()}.opened").open("w", buffering=1)

    def note(event: str, arguments: Any) -> None:
        if event == "open" and str(arguments[0]).startswith(data):
            log.write(f"{arguments[0]}\n")

    sys.addaudithook(note)
    run = ["run", "--data-dir", data, "--agents", "6", "--steps", "20"]
    try:
        main([*run, "--out", str(folder / "own-files")])
    except SystemExit as end:
        assert end.code == 0, end.code  # noqa: PT017


def broken_file(folder: Path) -> None:
    """The file of an agent of rank 2 is no archive; ends the process."""
    data = str(folder / "broken")
    main(["run", "--data-dir", data, "--agents", "6", "--steps", "5", "--quiet"])


def late(folder: Path) -> None:
    """`exchange` returns at once, and what is computed meanwhile is not waited for."""
    del folder
    world: Any = pm.connect(pm.graphs.ring(AGENTS), dtype=torch.float64, timeout=20)
    exact = pm.connect(pm.graphs.ring(AGENTS), "simulated", dtype=torch.float64)
    world.link = DelayedLink(world.link, 0.4)
    x = torch.arange(AGENTS * 3, dtype=torch.float64).view(AGENTS, 3)
    mine = list(world.agents)
    world.reduce(x[mine], "sum")  # all together
    begin = time.monotonic()
    sent = world.exchange(x[mine])
    assert time.monotonic() - begin < 0.2
    time.sleep(0.3)  # stands for gradients
    found = sent.laplacian()
    assert 0.4 <= time.monotonic() - begin < 0.65
    torch.testing.assert_close(found, exact.exchange(x).laplacian()[mine])


def forbid_pickle() -> None:
    """What ranks send one another is bytes: unpickling it could run code."""

    def refuse(*anything: Any) -> Any:
        raise AssertionError(f"pickled between ranks: {str(anything)[:200]}")

    if "OMPI_COMM_WORLD_RANK" in os.environ:
        from mpi4py import MPI

        MPI.pickle.__init__(refuse, refuse)  # type: ignore[misc]
    else:
        from torch.distributed import distributed_c10d

        for name in ("_object_to_tensor", "_tensor_to_object"):
            setattr(distributed_c10d, name, refuse)


def rank() -> int:
    return int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))


def ranks() -> int:
    return int(
        os.environ.get("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    forbid_pickle()
    # Several in the same processes: starts are dear.
    for errand in sys.argv[1].split("+"):
        mode, *arguments = errand.split(":")
        globals()[mode](Path.cwd(), *arguments)
