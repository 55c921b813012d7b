"""Data that is read by index when batches are drawn."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import proxmesh as pm
from proxmesh import Notice
from proxmesh.data import lazy_samples, opening
from proxmesh.data.lazy_samples import LazySamples

SIZES = (30, 9, 41)
FEATURES, CLASSES = 6, 3
Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
Form = Callable[[Arrays, Path], Any]


def arrays() -> list[Arrays]:
    """One unequal pair of inputs and labels for each agent, and one to test on."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(sum(SIZES) + 20, FEATURES))
    y = (x[:, :CLASSES]).argmax(1)
    cuts = [0, *accumulate((*SIZES, 20))]
    return [(x[a:b], y[a:b]) for a, b in pairwise(cuts)]


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, CLASSES), nn.Linear(2, CLASSES)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = torch.tanh(self.left(a)) + self.right(b)
        return out


def problem_of(shards: Any, **options: Any) -> pm.LearningProblem:
    torch.manual_seed(0)
    model = options.pop("model", None) or nn.Sequential(
        nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES)
    )
    options = {"batch_size": 4, "vectorize": True, "paired": True, **options}
    return pm.LearningProblem(model, nn.functional.cross_entropy, shards, **options)


def in_memory(**options: Any) -> pm.LearningProblem:
    *shards, test = arrays()
    return problem_of(shards, test=test, **options)


class Rows:
    """Samples one by one; tells who has read what."""

    def __init__(self, pair: Arrays) -> None:
        self.x, self.y = pair
        self.read: list[tuple[str, int]] = []
        self.busy = 0
        self.most_busy = 0
        self.pause = 0.0  # seconds

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self.y):
            raise IndexError(i)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.read.append((threading.current_thread().name, i))
        time.sleep(self.pause)
        self.busy -= 1
        return self.x[i], int(self.y[i])

    @property
    def readers(self) -> set[str]:
        return {name for name, _ in self.read}


class DictRows(Rows):
    """Like a data set of Hugging Face: dicts, and several of them at once."""

    def __getitem__(self, i: int) -> Any:
        x, y = super().__getitem__(i)
        return {"id": f"sample-{i}", "image": x.tolist(), "label": y}

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return [self[i] for i in rows]


COLUMNS = ("image", "label")


def as_memmap(pair: Arrays, folder: Path) -> Any:
    found = []
    for name, array in zip("xy", pair, strict=True):
        file = folder / f"{len(array)}-{name}.npy"
        np.save(file, array)
        found.append(np.load(file, mmap_mode="r"))
    return tuple(found)


FORMS: dict[str, Form] = {
    "memmap": lambda p, f: pm.DatasetShard(as_memmap(p, f), lazy=True),
    "arrays": lambda p, _: pm.DatasetShard(p, lazy=True),
    "tensors": lambda p, _: pm.DatasetShard(
        (torch.from_numpy(p[0]), torch.from_numpy(p[1])), lazy=True
    ),
    "rows": lambda p, _: pm.DatasetShard(Rows(p), lazy=True),
    "torch": lambda p, _: pm.DatasetShard(
        TensorDataset(torch.from_numpy(p[0]), torch.from_numpy(p[1])), lazy=True
    ),
    "dicts": lambda p, _: pm.DatasetShard(DictRows(p), columns=COLUMNS, lazy=True),
    "columns": lambda p, f: pm.DatasetShard(
        dict(zip(COLUMNS, as_memmap(p, f), strict=True)), columns=COLUMNS, lazy=True
    ),
    "whole dicts": lambda p, _: pm.DatasetShard(
        DictRows(p), columns=COLUMNS, lazy=False
    ),
    "auto": lambda p, _: Rows(p),
    "auto memmap": as_memmap,
    "list of rows": lambda p, _: pm.DatasetShard(
        [(x, int(y)) for x, y in zip(*p, strict=True)]
    ),
}
WHOLE = {"whole dicts", "auto", "auto memmap", "list of rows"}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_problem(form: str, tmp_path: Path) -> None:
    expected = in_memory()
    *shards, test = [FORMS[form](pair, tmp_path) for pair in arrays()]
    found = problem_of(shards, test=test)
    assert found.lazy == (form not in WHOLE)
    x = expected.x0("different")
    for options in ({"k": 3}, {"k": torch.tensor(4)}, {"k": 2, "size": 9, "stream": 1}):
        ours, theirs = found.sample(**options), expected.sample(**options)
        assert torch.equal(ours.inputs[0], theirs.inputs[0])
        assert torch.equal(ours.targets, theirs.targets)
    for ours_, theirs_ in zip(
        (found.full_grad(x), found.value(x), *found.test(x[0]).values()),
        (expected.full_grad(x), expected.value(x), *expected.test(x[0]).values()),
        strict=True,
    ):
        assert torch.equal(torch.as_tensor(ours_), torch.as_tensor(theirs_))
    assert found.num_samples == sum(SIZES)
    assert found.sample_shape == ((FEATURES,), ())
    alone, other = found.local([2, 0]), expected.local([2, 0])
    assert alone.lazy == found.lazy
    assert torch.equal(alone.full_grad(x[[2, 0]]), other.full_grad(x[[2, 0]]))
    assert torch.equal(alone.sample(7).targets, other.sample(7).targets)


def test_several_inputs() -> None:
    pairs = arrays()[:-1]
    whole = [((x[:, :4], x[:, 4:]), y) for x, y in pairs]
    rows = [
        pm.DatasetShard([((a[:4], a[4:]), int(b)) for a, b in zip(x, y, strict=True)])
        for x, y in pairs
    ]
    columns = [
        pm.DatasetShard(
            {"b": x[:, 4:], "label": y, "a": x[:, :4]},
            columns=("a", "b", "label"),
            lazy=True,
        )
        for x, y in pairs
    ]
    doubled = [
        pm.DatasetShard(pair, transform=lambda s, _: ((2 * s[0][0], s[0][1]), s[1]))
        for pair in whole
    ]
    expected = problem_of(whole, model=TwoInputs())
    x = expected.x0("different")
    for shards in (rows, columns):
        found = problem_of(shards, model=TwoInputs())
        assert torch.equal(found.full_grad(x), expected.full_grad(x))
    a, b = problem_of(doubled, model=TwoInputs()).sample(1).inputs
    assert torch.equal(a, 2 * expected.sample(1).inputs[0])
    assert torch.equal(b, expected.sample(1).inputs[1])


def test_a_whole_run_is_the_same_to_the_bit() -> None:
    *shards, test = arrays()
    lazy = problem_of(
        [pm.DatasetShard(Rows(shard), lazy=True) for shard in shards],
        test=pm.DatasetShard(test, lazy=True),
    )
    graph: Any = pm.graphs.ring(3)
    for algorithm in (pm.HSMADMM(), pm.DEEPSTORM()):
        ours, theirs = (
            pm.solve(problem, algorithm, graph, 12, eval_every=4, compile=False)
            for problem in (lazy, in_memory())
        )
        assert ours.algorithm == theirs.algorithm, "automatic constants"
        assert torch.equal(ours.state.x, theirs.state.x)
        seconds = ["seconds"]
        assert ours.history.drop(columns=seconds).equals(
            theirs.history.drop(columns=seconds)
        )


def test_lazy_and_whole_shards_mix() -> None:
    a, b, c, test = arrays()
    mixed = problem_of([a, pm.DatasetShard(Rows(b), lazy=True), c], test=test)
    expected = in_memory()
    x = expected.x0("different")
    assert mixed.lazy
    assert torch.equal(mixed.full_grad(x), expected.full_grad(x))
    assert torch.equal(mixed.sample(5).targets, expected.sample(5).targets)
    assert not mixed.local([0, 2]).lazy, "what is left is in memory"
    by_id = problem_of({0: a, 2: pm.DatasetShard(c, lazy=True)})
    assert torch.equal(by_id.sample(1).targets, expected.sample(1).targets[[0, 2]])


def test_a_callable_opens_only_what_is_asked_for() -> None:
    opened = []

    def shard(agent: int) -> pm.DatasetShard:
        opened.append(agent)
        return pm.DatasetShard(Rows(arrays()[agent]), lazy=True)

    problem = problem_of(shard)
    assert not problem.lazy
    problem.stop_reading()
    mine = problem.local([1])
    assert opened == [1]
    expected = in_memory().local([1])
    assert torch.equal(mine.sample(3).inputs[0], expected.sample(3).inputs[0])


def test_whole_or_lazy_depends_on_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(SIZES) * (8 * FEATURES + 8)
    shards = [Rows(shard) for shard in arrays()[:-1]]
    monkeypatch.setattr(opening, "available_memory", lambda: 4 * size)
    assert not problem_of(shards).lazy
    monkeypatch.setattr(opening, "available_memory", lambda: 4 * size - 1)
    with pytest.warns(Notice) as caught:
        assert problem_of(shards).lazy
    assert [str(w.message) for w in caught] == [
        "4.5 kB of data is read batch by batch, since 18 kB of memory is free. Use "
        "`DatasetShard(..., lazy=False)` to read them at once."
    ]
    assert not problem_of([pm.DatasetShard(s, lazy=False) for s in shards]).lazy
    assert not problem_of(arrays()[:-1]).lazy, "it is in memory already"
    monkeypatch.setattr(opening, "available_memory", lambda: None)
    assert not problem_of(shards).lazy


# -- transforms ------------------------------------------------------------------------


def noisy(sample: Any, generator: torch.Generator | None) -> Any:
    x, y = sample
    x = torch.as_tensor(x)
    if generator is not None:
        x = x + torch.rand((), generator=generator)
    return x, y


def augmented(**options: Any) -> pm.LearningProblem:
    *shards, test = arrays()
    return problem_of(
        [pm.DatasetShard(Rows(shard), transform=noisy) for shard in shards],
        test=pm.DatasetShard(test, transform=noisy),
        **options,
    )


def shift(problem: pm.LearningProblem, *draw: int) -> Tensor:
    """What the transform has added to each sample of a batch, [agents, batch]."""
    plain = in_memory(seed=problem.seed)
    moved = problem.sample(*draw).inputs[0] - plain.sample(*draw).inputs[0]
    assert torch.allclose(moved, moved[..., :1].expand_as(moved))
    return moved[..., 0]


def test_each_sample_has_luck_of_its_own() -> None:
    problem = augmented()
    all_draws = [shift(problem, k, 4, s).flatten() for k in range(6) for s in (0, 1)]
    found = torch.cat(all_draws)
    assert len({round(float(f), 9) for f in found}) == len(found)
    assert found.min() >= 0
    assert found.max() <= 1
    assert 0.4 < found.mean() < 0.6
    other = augmented(seed=1)
    assert not torch.equal(shift(other, 2, 4, 0), shift(problem, 2, 4, 0))


def test_luck_depends_on_nothing_else() -> None:
    problem, again = augmented(), augmented()
    first = [problem.sample(k).inputs[0] for k in range(1, 6)]  # all but one read ahead
    for k in (4, 2, 5, 1, 3):
        assert torch.equal(again.sample(k).inputs[0], first[k - 1])
        assert torch.equal(again.sample(k, size=9).inputs[0][:, :4], first[k - 1])
    some = augmented().local([2, 1])
    assert torch.equal(some.sample(3).inputs[0], first[2][[2, 1]])
    torch.manual_seed(5)
    assert torch.equal(augmented().sample(2).inputs[0], first[1])


def test_nothing_is_random_in_evaluations() -> None:
    problem, plain = augmented(), in_memory()
    x = plain.x0("different")
    assert torch.equal(problem.full_grad(x), plain.full_grad(x))
    assert problem.test(x[0]) == plain.test(x[0])


def test_an_augmented_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    graph: Any = pm.graphs.ring(3)
    options: Any = {"eval_every": 5, "compile": False, "checkpoint_every": 7}
    whole = pm.solve(augmented(), pm.HSMADMM(), graph, 20, **options)

    class CutError(Exception):
        pass

    def cut(row: Mapping[str, float], _: Any) -> None:
        if row["iteration"] == 15:
            raise CutError

    with pytest.raises(CutError):
        pm.solve(
            augmented(),
            pm.HSMADMM(),
            graph,
            20,
            callbacks=[cut],
            out=tmp_path / "run",
            **options,
        )
    rest = pm.resume(tmp_path / "run", augmented())
    assert torch.equal(rest.state.x, whole.state.x)
    assert rest.history.drop(columns="seconds").equals(
        whole.history.drop(columns="seconds")
    )


def test_both_gradients_of_an_iteration_see_the_same_sample() -> None:
    problem = augmented(paired=False)
    x = problem.x0("different")
    batch = problem.sample(3)
    ours = problem.grad_pair(x, 2 * x, batch)
    theirs = augmented(paired=True)
    found = theirs.grad_pair(x, 2 * x, theirs.sample(3))
    for a, b in zip(ours, found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


# -- reading ahead ---------------------------------------------------------------------


def watched(**options: Any) -> tuple[list[Rows], pm.LearningProblem]:
    rows = [Rows(shard) for shard in arrays()[:-1]]
    shards = [pm.DatasetShard(r, lazy=True, **options) for r in rows]
    problem = problem_of(shards)
    for r in rows:
        r.read.clear()
    return rows, problem


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if "proxmesh" in t.name]


def test_the_next_batch_is_read_in_a_thread() -> None:
    rows, problem = watched()
    problem.sample(1)
    problem.stop_reading()
    assert [name for name, _ in rows[0].read] == [
        *["MainThread"] * 4,
        *["proxmesh reads ahead"] * 4,
    ]
    rows[0].read.clear()
    problem.sample(1)
    problem.sample(2)
    problem.sample(3)
    problem.stop_reading()
    names = [name for name, _ in rows[0].read]
    assert names == ["MainThread"] * 4 + ["proxmesh reads ahead"] * 12
    rows[0].read.clear()
    problem.sample(9, size=2)
    problem.sample(9, stream=3)
    problem.stop_reading()
    assert rows[0].readers == {"MainThread"}, "nobody knows what comes after these"


def test_a_batch_that_was_read_ahead_is_kept_for_its_turn() -> None:
    rows, problem = watched()
    problem.sample(1)
    problem.sample(0, size=3, stream=7)
    problem.full_grad(problem.x0())
    rows[0].read.clear()
    batch = problem.sample(2)
    assert torch.equal(batch.targets, in_memory().sample(2).targets)
    problem.stop_reading()
    expected = in_memory().local_shards.sampler.indices(3, 4)[0].tolist()
    assert [i for _, i in rows[0].read] == expected, "the third alone was read"


def test_nothing_is_read_ahead_unless_it_may_be() -> None:
    rows, problem = watched(prefetch=False)
    pm.solve(problem, pm.DSGT(0.1), pm.graphs.ring(3), 3, eval_every=1)
    for r in rows:
        assert r.readers == {"MainThread"}


def test_a_data_set_is_read_by_one_thread_at_a_time() -> None:
    rows, problem = watched()
    pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(3), 15, eval_every=2)
    for r in rows:
        assert r.readers == {"MainThread", "proxmesh reads ahead"}
        assert r.most_busy == 1


@pytest.mark.long
def test_threads_end_with_the_run() -> None:
    before = threading.active_count()
    for _ in range(10):
        rows, problem = watched()
        run = pm.prepare(problem, pm.DSGT(0.1), pm.graphs.ring(3), 2)
        rows[0].pause = 0.01  # so that a batch is under way when the run ends
        run.go()
        assert threads() == []
    assert threading.active_count() == before


def test_threads_end_with_a_run_that_fails() -> None:
    rows, problem = watched()

    def fail(*_: Any) -> None:
        rows[0].pause = 0.1
        problem.sample(5)  # and the batch of 6 is under way
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pm.solve(
            problem,
            pm.DSGT(0.1),
            pm.graphs.ring(3),
            4,
            eval_every=2,
            callbacks=[fail],
        )
    assert threads() == []


class SlowInOneProcess(Rows):
    """Waits, in the process that has made it, until it is let go."""

    def __init__(self, pair: Arrays) -> None:
        super().__init__(pair)
        self.process = os.getpid()
        self.go_on = threading.Event()
        self.go_on.set()

    def __getitem__(self, i: int) -> Any:
        if os.getpid() == self.process:
            self.go_on.wait()
        return super().__getitem__(i)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing can be forked here")
def test_a_forked_process_reads_for_itself() -> None:
    rows = [SlowInOneProcess(shard) for shard in arrays()[:-1]]
    problem = problem_of([pm.DatasetShard(r, lazy=True) for r in rows])
    expected = in_memory().sample(2).targets
    problem.sample(0)  # the batch of 1 is read ahead, and found
    problem.local_shards.samples.take(torch.zeros(1, dtype=torch.int64))
    rows[0].go_on.clear()
    problem.sample(1)  # the batch of 2 is under way, and waits
    assert threads()
    child = os.fork()
    if child == 0:
        same = torch.equal(problem.sample(2).targets, expected)
        os._exit(0 if same else 1)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        rows[0].go_on.set()
    assert os.waitstatus_to_exitcode(status) == 0
    assert torch.equal(problem.sample(2).targets, expected)
    problem.stop_reading()


def test_problems_can_be_copied_while_a_batch_is_read() -> None:
    *shards, _ = arrays()
    problem = problem_of([pm.DatasetShard(shard, lazy=True) for shard in shards])
    expected = problem.sample(1).targets  # the second is on its way
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(other.sample(1).targets, expected)
        other.stop_reading()
    problem.stop_reading()


# -- compiling -------------------------------------------------------------------------


def test_a_lazy_problem_runs_uncompiled_and_says_so() -> None:
    _, problem = watched()
    graph: Any = pm.graphs.ring(3)
    with pytest.warns(Notice) as caught:
        result = pm.solve(problem, pm.DSGT(0.1), graph, 2, compile=True)
    assert [str(w.message) for w in caught] == [
        "the step runs uncompiled: batches are read when they are drawn, which no "
        "compiler can record. Read them at once if they fit: `DatasetShard(..., "
        "lazy=False)`."
    ]
    assert not result.compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = pm.prepare(problem, pm.DSGT(0.1), graph, 10**9, compile="auto")
    assert run.settings.compile == "off"
    whole = pm.prepare(in_memory(), pm.DSGT(0.1), graph, 10**9, compile="auto")
    assert whole.settings.compile == "on"


# -- what goes wrong -------------------------------------------------------------------


def message_of(act: Callable[[], Any]) -> str:
    with pytest.raises(pm.InputError) as caught:
        act()
    return str(caught.value)


class Bad(Rows):
    """One sample is not as it should be."""

    def __init__(self, pair: Arrays, sample: Callable[[Any], Any]) -> None:
        super().__init__(pair)
        self.sample = sample

    def __getitem__(self, i: int) -> Any:
        good = super().__getitem__(i)
        return self.sample(good) if i == 5 else good


def torn(_: Any) -> Any:
    raise OSError("the file is torn\nin two")


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "raises": (torn, "agent 1, sample 5 cannot be read. OSError: the file is torn."),
    "nan": (
        lambda s: (s[0] * np.nan, s[1]),
        "agent 1, sample 5: nan or an infinite number in its inputs. Remove or "
        "replace it.",
    ),
    "label": (
        lambda s: (s[0], 7),
        "agent 1, sample 5: its label is 7 but the model has 3 outputs; labels must "
        "be 0 .. 2.",
    ),
    "parts": (
        lambda s: (*s, 1),
        "agent 1, sample 5: expected a pair (inputs, targets), got 3 parts. Several "
        "inputs go into a tuple: ((a, b), targets).",
    ),
    "kind": (
        lambda s: s[1],
        "agent 1, sample 5: expected pairs (inputs, targets), got int.",
    ),
    "dict": (
        lambda s: {"image": s[0], "label": s[1]},
        "agent 1, sample 5: its data has the keys image, label. Say which are the "
        'inputs and the target: DatasetShard(dataset, columns=("image", "label")).',
    ),
    "words": (
        lambda s: ("a word", s[1]),
        "agent 1, sample 5: `str` cannot become a tensor. Make it one in a "
        "`transform`.",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_sample_is_named_wherever_it_is_read(kind: str) -> None:
    sample, message = BAD[kind]
    a, b, c, _ = arrays()
    bad = pm.DatasetShard(Bad(b, sample), lazy=True)
    shards = [pm.DatasetShard(a, lazy=True), bad, pm.DatasetShard(c, lazy=True)]
    problem = problem_of(shards)
    draws = in_memory().local_shards.sampler
    begin = draws.offsets[1]
    at = next(k for k in range(2, 99) if 5 in (draws.indices(k, 4)[1] - begin).tolist())
    before = next(
        k for k in range(at, 0, -1) if 5 not in (draws.indices(k, 4)[1] - begin)
    )
    problem.sample(before)
    for k in range(before + 1, at):
        problem.sample(k)
    assert message_of(lambda: problem.sample(at)) == message, "read in a thread"
    assert message_of(lambda: problem.sample(at)) == message, "and at once"
    assert message_of(lambda: problem.value(problem.x0())) == message
    assert threads() == []


def test_shapes_must_be_equal() -> None:
    a, b, _, _ = arrays()
    bad = pm.DatasetShard(Bad(b, lambda s: (s[0][:4], s[1])), lazy=True)
    good = pm.DatasetShard(a, lazy=True)
    assert message_of(lambda: problem_of([bad, good])) == (
        "agent 0: sample 5 has the shape (4,) but sample 0 has (6,). Make them equal "
        "in a `transform`."
    )
    other = pm.DatasetShard((b[0][:, :4], b[1]), lazy=True)
    problem = problem_of([good, other])
    assert message_of(lambda: problem.sample(1)) == (
        "`shards` differ in the shape of a sample: [(6,), ()] and [(4,), ()]."
    )


def test_a_transform_that_fails_is_named() -> None:
    def fails(sample: Any, generator: Any) -> Any:
        if generator is None:
            return sample
        raise KeyError("pixels")

    shards = [pm.DatasetShard(shard, transform=fails) for shard in arrays()[:-1]]
    problem = problem_of(shards)
    first = int(in_memory().local_shards.sampler.indices(3, 4)[0, 0])
    assert message_of(lambda: problem.sample(3)) == (
        f"agent 0, sample {first}: `transform` cannot be read. KeyError: 'pixels'."
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: pm.DatasetShard([], lazy="maybe"),  # type: ignore[arg-type]
            "unknown value `maybe` of `lazy`. Known: False, True, auto.",
        ),
        (
            lambda: pm.DatasetShard([], transform=noisy, lazy=False),
            "DatasetShard: a `transform` is called for every draw, so the shard "
            "cannot be read at once. Leave out `lazy=False`.",
        ),
        (
            lambda: pm.DatasetShard([], transform=3),  # type: ignore[arg-type]
            "DatasetShard: `transform` must be a function of a sample and a "
            "generator, got 3.",
        ),
        (
            lambda: pm.DatasetShard([], columns="image"),
            "DatasetShard: `columns` must name at least an input and the target, such "
            'as ("image", "label"), got \'image\'.',
        ),
        (
            lambda: pm.DatasetShard({"a": np.ones(3), "b": np.ones(3)}),
            "DatasetShard: its data has the keys a, b. Say which are the inputs and "
            'the target: DatasetShard(dataset, columns=("image", "label")).',
        ),
        (
            lambda: problem_of([pm.DatasetShard([], lazy=True)]),
            "agent 0 has no samples; every agent needs at least one.",
        ),
        (
            lambda: problem_of(pm.DatasetShard(arrays()[0])),
            "LearningProblem: `shards` is a single DatasetShard. Give a list of them, "
            "one for every agent.",
        ),
        (
            lambda: problem_of([pm.DatasetShard(5)]),
            "agent 0: expected (inputs, targets) or a map-style Dataset, got int.",
        ),
        (
            lambda: problem_of([pm.DatasetShard((np.ones((3, 6)), np.ones(2)))]),
            "agent 0: 3 inputs but 2 targets; they must pair up.",
        ),
        (
            lambda: problem_of([pm.DatasetShard((1, 2, 3), lazy=True)]),
            "agent 0: expected a pair (inputs, targets), got 3 parts. Several inputs "
            "go into a tuple: ((a, b), targets).",
        ),
        (
            lambda: problem_of([[{"image": [1.0], "label": 0}]]),
            "agent 0: expected a pair (inputs, targets), got 1 parts. Several inputs "
            "go into a tuple: ((a, b), targets).",
        ),
        (
            lambda: problem_of(
                [
                    pm.DatasetShard(
                        [{"image": [1.0], "label": 0}], columns=("image", "class")
                    )
                ]
            ),
            "agent 0, sample 0 has no column `class`; it has image, label.",
        ),
    ],
)
def test_what_cannot_be_a_shard(make: Callable[[], Any], message: str) -> None:
    assert message_of(make) == message


# -- memory ----------------------------------------------------------------------------

MB = 2**20
PROGRAM = f"""
import resource, sys
import numpy as np, torch
import proxmesh as pm
from pathlib import Path

torch.set_num_threads(1)
folder = Path(sys.argv[1])
x = np.load(folder / "x.npy", mmap_mode="r")
y = np.load(folder / "y.npy", mmap_mode="r")
half = len(y) // 2
shards = [(x[:half], y[:half]), (x[half:], y[half:])]

def problem(shards):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 2))
    return pm.LearningProblem(
        model, torch.nn.functional.cross_entropy, shards, test=shards[0], batch_size=8
    )

def run(shards):
    graph = pm.graphs.path(2)
    return pm.solve(problem(shards), pm.HSMADMM(), graph, 4, eval_every=4, kkt=False)

few = [(a[:40], b[:40]) for a, b in shards]
run([pm.DatasetShard(shard, lazy=True) for shard in few])  # what all runs need
status = Path("/proc/self/status").read_text()
data = next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmData"))
allowed = data * 1024 + {160 * MB}
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
shards = [pm.DatasetShard(shard, lazy=True) for shard in shards]
print(len(run(shards).history))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
def test_memory_stays_far_below_the_size_of_the_data(tmp_path: Path) -> None:
    samples = 6800  # of 48 kB: 319 MB in all
    x = np.lib.format.open_memmap(
        tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(samples, 3, 64, 64)
    )
    x[::100] = np.float32(0.5)
    x.flush()
    np.save(tmp_path / "y.npy", np.arange(samples) % 2)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == "2\n", ended.stderr
    (tmp_path / "x.npy").unlink()


def test_an_evaluation_holds_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    one = 8 * FEATURES + 8
    monkeypatch.setattr(lazy_samples, "CHUNK_BYTES", 10 * one)
    *shards, test = arrays()
    read: list[int] = []
    whole = LazySamples._read

    def noted(self: LazySamples, rows: Tensor, *seeds: Any) -> Any:
        read.append(rows.numel())
        return whole(self, rows, *seeds)

    monkeypatch.setattr(LazySamples, "_read", noted)
    problem = problem_of(
        [pm.DatasetShard(shard, lazy=True) for shard in shards],
        test=pm.DatasetShard(test, lazy=True),
    )
    x = problem.x0("different")
    read.clear()
    found = problem.full_grad(x)
    assert sum(read) == sum(SIZES)
    assert max(read) <= 10
    torch.testing.assert_close(found, in_memory().full_grad(x), rtol=0, atol=1e-12)
    read.clear()
    problem.test(x[0])
    assert (sum(read), max(read)) == (20, 10)


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if "proxmesh" in thread.name:
            thread.join(5)
            assert not thread.is_alive()
