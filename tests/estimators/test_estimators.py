"""The scikit-learn estimators: what they learn, keep, repeat and refuse."""

import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.data.partition import SPLITS, by_label, dirichlet
from proxmesh.estimators import dealing
from proxmesh.estimators.dealing import dealt

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
QUICK: dict[str, Any] = {
    "agents": 3,
    "steps": 20,
    "random_state": 0,
    "settings": {"compile": False, "eval_every": 20},
}


@pytest.fixture(autouse=True)
def _as_users_run_it() -> None:
    torch.set_default_dtype(torch.float32)


def classifier(**given: Any) -> pm.DecentralizedClassifier:
    return pm.DecentralizedClassifier(**{**QUICK, **given})


def regressor(**given: Any) -> pm.DecentralizedRegressor:
    return pm.DecentralizedRegressor(**{**QUICK, **given})


class Net(nn.Module):
    def __init__(self, features: int, classes: int, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.drop(torch.tanh(self.first(x))))


# -- what is learned -------------------------------------------------------------------


def test_named_columns_and_labels_and_the_order_of_samples() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    found = classifier(steps=60).fit(table, NAMES)
    assert found.score(table, NAMES) > 0.9
    assert found.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert found.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    chances = found.predict_proba(table)
    assert np.array_equal(found.classes_[chances.argmax(1)], found.predict(table))
    assert np.allclose(chances.sum(1), 1)
    order = np.random.default_rng(0).permutation(150)
    again = found.predict_proba(table.iloc[order])
    assert np.abs(again - chances[order]).max() < 1e-12
    assert len(found.history_) == 4
    assert found.n_iter_ == 60


def test_agents_find_what_one_machine_finds() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    several = np.column_stack([targets, -1000 * targets + 3])
    found = regressor(steps=200, split="by-label").fit(inputs, several)
    exact = LinearRegression().fit(inputs, several).predict(inputs)
    apart = np.sqrt(((found.predict(inputs) - exact) ** 2).mean(0)) / several.std(0)
    assert apart.max() < 0.08  # the columns are nearly dependent: 200 steps are few
    alone = regressor(steps=2).fit(inputs, targets)
    assert alone.predict(inputs).shape == targets.shape


def test_a_regularizer_leaves_exact_zeros() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    lasso = regressor(regularizer=pm.L1(0.1), steps=100).fit(inputs, targets)
    weights = next(lasso.module_.parameters())
    assert 2 <= int((weights == 0).sum()) < 10


def test_an_own_loss_is_what_is_minimized() -> None:
    skewed = np.concatenate([np.zeros(20), np.full(10, 9.0)])
    column = np.zeros((30, 1))
    for loss, low, high in ((None, 2.5, 3.5), (nn.functional.l1_loss, -0.5, 0.8)):
        found = regressor(loss=loss, steps=80).fit(column, skewed)
        assert low < found.predict(column[:1])[0] < high


def test_scales_do_not_matter_unless_that_is_wanted() -> None:
    scales = np.array([1e-4, 1.0, 1e5, 1.0])
    usual, scaled = classifier().fit(X, Y), classifier().fit(X * scales, Y)
    assert np.allclose(usual.predict_proba(X), scaled.predict_proba(X * scales))
    plain = classifier(standardize=False).fit(StandardScaler().fit_transform(X), Y)
    assert plain.scaler_ is None
    expected = plain.predict_proba(StandardScaler().fit_transform(X))
    assert np.allclose(usual.predict_proba(X), expected)


# -- models and their parameters -------------------------------------------------------


def test_parameters_of_a_model_are_parameters_of_the_estimator() -> None:
    found = classifier(model=Net, module__width=3)
    assert found.get_params()["module__width"] == 3
    assert clone(found).get_params()["module__width"] == 3
    assert "module__width=3" in repr(found)
    found.set_params(module__width=5, steps=2).fit(X, Y)
    layers = dict(found.module_.named_parameters())
    assert layers["first.weight"].shape == (5, 4)
    assert layers["last.weight"].shape == (3, 5)
    ready = classifier(model="mlp", module__hidden=6, steps=2).fit(X, Y)
    assert next(ready.module_.parameters()).shape == (6, 4)
    assert next(ready.module_.parameters()).dtype == torch.float64
    half = classifier(steps=2).fit(X.astype(np.float32), Y)
    assert next(half.module_.parameters()).dtype == torch.float32


def test_a_search_inside_a_pipeline() -> None:
    place = "decentralizedclassifier__"
    grid = {f"{place}module__hidden": [1, 6], f"{place}regularizer": [pm.L1(1e-3)]}
    pipeline = make_pipeline(StandardScaler(), classifier(model="mlp", steps=30))
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, NAMES)
    assert search.best_params_[f"{place}module__hidden"] == 6
    assert search.score(X, NAMES) > 0.85


def test_a_module_is_left_as_it_was() -> None:
    module = Net(4, 3)
    before = [w.clone() for w in module.parameters()]
    found = classifier(model=module, steps=2).fit(X, Y)
    assert all(map(torch.equal, before, module.parameters()))
    assert module.training
    assert not found.module_.training
    assert found.result_.problem.template.training  # for a partial_fit: it drops out
    assert found.predict_proba(X).dtype == np.float64


# -- agents and their samples ----------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_every_sample_is_somebodys(split: str) -> None:
    rows = dealt("me", Y[:145], 8, split, seed=3)
    assert sorted(np.concatenate(rows)) == list(range(145))
    if split not in {"unequal", "dirichlet"}:
        assert {len(part) for part in rows} == {18, 19}


def test_a_split_and_a_graph_of_ones_own() -> None:
    seen = []

    def split(labels: NDArray[Any], agents: int, seed: int) -> list[Any]:
        seen.append((len(labels), agents))
        return by_label(labels, agents, seed)

    found = classifier(split=split, graph=nx.star_graph(4), agents=None, steps=2)
    assert len(found.fit(X, Y).result_.state.x) == 5
    assert seen == [(150, 5)]
    skewed = partial(dirichlet, alpha=5.0)
    assert classifier(split=skewed, steps=2).fit(X, Y).n_iter_ == 2
    assert classifier(split="unequal", steps=2).fit(X, Y).n_iter_ == 2  # and no notice
    inputs, targets = load_diabetes(return_X_y=True)
    assert regressor(split=skewed, steps=2).fit(inputs, targets).n_iter_ == 2


def test_fewer_samples_than_agents() -> None:
    few, labels = np.array([[0.0], [1.0]]), ["no", "yes"]
    found = classifier(agents=8).fit(few, labels)
    assert found.predict(few).tolist() == labels
    assert [len(rows) for rows in dealt("me", Y[:2], 3, "shuffled", 0)] == [2, 2, 2]


def test_sparse_tables_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sparse.csr_array(X)
    found = classifier().fit(table, Y)
    assert np.array_equal(found.predict(table), classifier().fit(X, Y).predict(X))
    monkeypatch.setattr(dealing, "LARGEST", 4000)
    dense_model = classifier(model=torch.nn.Linear(4, 3).double())
    with pytest.raises(pm.InputError, match=r"sparse `X` of 150 x 4 takes 4.8 kB"):
        dense_model.fit(table, Y)


def test_large_sparse_tables_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sparse.csr_array(X)
    plain = classifier(standardize=False).fit(table, Y)
    monkeypatch.setattr(dealing, "LARGEST", 4000)
    kept = classifier(standardize=False).fit(table, Y)
    outputs = [each.predict_proba(table) for each in (plain, kept)]
    assert np.abs(outputs[0] - outputs[1]).max() < 1e-12
    scaled = classifier().fit(table, Y)
    assert scaled.scaler_ is not None
    assert not scaled.scaler_.with_mean
    assert np.allclose(scaled.predict_proba(table).sum(1), 1)


# -- going on, keeping, repeating ------------------------------------------------------


def test_partial_fits_go_on_from_the_state() -> None:
    order = np.random.default_rng(0).permutation(150)
    found = classifier(batch_size=5)
    for part in np.array_split(np.tile(order, 2), 6):
        found.partial_fit(X[part], NAMES[part], classes=np.unique(NAMES))
    assert found.n_iter_ == 6 * 3  # epochs of 50 samples: 16 or 17 of each agent
    assert found.history_["iteration"].is_monotonic_increasing
    assert found.history_["gradients"].is_monotonic_increasing
    assert found.score(X, NAMES) > 0.8
    before = found.module_
    found.partial_fit(X[:1], NAMES[:1])  # fewer than agents
    assert found.n_iter_ == 19
    assert found.module_ is not before
    found.fit(X, NAMES)
    assert found.n_iter_ == 20


def test_what_partial_fit_refuses() -> None:
    found = classifier(steps=2)
    with pytest.raises(pm.InputError, match="must be told all classes"):
        found.partial_fit(X, NAMES)
    found.partial_fit(X, NAMES, classes=np.unique(NAMES))
    with pytest.raises(pm.InputError, match="label `rose`, which is none of"):
        found.partial_fit(X[:2], ["rose", "setosa"])
    with pytest.raises(pm.InputError, match=r"`classes` are \['a', 'b'\], but were"):
        found.partial_fit(X, NAMES, classes=["a", "b"])
    numbers = regressor(steps=2).fit(X, Y)
    with pytest.raises(pm.InputError, match="`y` has 2 targets, but had 1"):
        numbers.partial_fit(X, np.column_stack([Y, Y]))


def test_pickles_hold_the_model_and_no_sample() -> None:
    many = np.random.default_rng(0).normal(size=(2000, 4))
    found = regressor(steps=3).fit(many, many[:, 0])
    text = pickle.dumps(found)
    assert len(text) < many.nbytes / 3
    back = pickle.loads(text)
    assert np.array_equal(back.predict(many), found.predict(many))
    assert repr(back.result_) == repr(found.result_)
    assert len(list(back.result_.agent_models())) == 3
    for estimator in (found, back):
        estimator.partial_fit(many[:90], many[:90, 0])
    assert np.array_equal(back.predict(many), found.predict(many))


def test_random_states() -> None:
    def chances(seed: Any) -> NDArray[np.float64]:
        return classifier(random_state=seed, steps=3).fit(X, Y).predict_proba(X)

    assert np.array_equal(chances(1), chances(1))
    assert not np.array_equal(chances(1), chances(2))
    drawn = np.random.RandomState(0)
    assert not np.array_equal(chances(drawn), chances(drawn))
    assert not np.array_equal(chances(None), chances(None))


def test_settings_are_those_of_solve() -> None:
    given = {"target": {"train_accuracy": 0.5}, "eval_every": 5, "compile": False}
    found = classifier(steps=60, settings=given).fit(X, Y)
    assert found.result_.outcome is pm.Outcome.TARGET_REACHED
    assert found.n_iter_ < 60
    epochs = {"epochs": 0.5, "compile": False}
    assert classifier(batch_size=5, settings=epochs).fit(X, Y).n_iter_ == 5


def test_a_divergence_is_told_and_an_interrupt_handed_on() -> None:
    with pytest.warns(pm.Notice, match="the run diverged at iteration"):
        bad = regressor(algorithm=pm.DSGT(alpha=1e6), steps=300).fit(X, Y)
    assert bad.result_.outcome is pm.Outcome.DIVERGED

    def press(row: Any, state: Any) -> None:
        del row, state
        os.kill(os.getpid(), signal.SIGINT)

    given = {"callbacks": [press], "eval_every": 2, "compile": False}
    found = classifier(settings=given)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, Y)
    assert found.n_iter_ < 20
    assert set(found.predict(X)) <= set(Y)  # what was computed is kept


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"module__hiden": 3}, r"model `logistic`: .*'hiden'. It takes none"),
        ({"model": Net, "module__widht": 3}, "'widht'. It takes module__width"),
        ({"model": nn.Linear}, "missing a required argument: 'in_features'"),
        ({"model": "mpl"}, "unknown model `mpl` of Decentr.* Did you mean `mlp`"),
        ({"model": 3}, "`model` must be a module, a class or function .*; got 3"),
        ({"model": lambda: 3}, "`model` must make an `nn.Module`, got int"),
        ({"model": Net(4, 3), "module__width": 2}, "a Net that is built already"),
        ({"model": Net(4, 5)}, r"`Net` must put out 3 logits per sample.*\(5,\)"),
        ({"graph": "rng"}, "unknown graph `rng`. Did you mean `ring`"),
        ({"graph": pm.graphs.ring(4)}, r"`agents` is 3, but the graph `ring\(n=4\)`"),
        ({"split": lambda *_, seed: [[seed]]}, "the rows of 3 agents, got 1"),
        ({"split": lambda *_, seed: [[-1], [seed], [1]]}, "not so for agent 0"),
        ({"steps": 0}, "`steps` must be a whole number of at least 1, got 0"),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number .*, got 2.5"),
        ({"settings": {"epoch": 2}}, "unknown setting `epoch`.*mean `epochs`"),
        ({"settings": 3}, "`settings` must map keywords of `pm.solve` to values"),
    ],
)
def test_bad_parameters(given: dict[str, Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        classifier(**given).fit(X, Y)


def test_an_unknown_parameter_is_refused_at_once() -> None:
    with pytest.raises(pm.InputError, match=r"`step` of .* Did you mean `steps`"):
        classifier(step=3)
    with pytest.raises(ValueError, match="Invalid parameter 'step'"):
        classifier().set_params(step=3)
    with pytest.raises(pm.InputError, match="`y` has 1 class, `7`"):
        classifier().fit(X, np.full(150, 7))


def test_the_package_alone_does_not_import_scikit_learn() -> None:
    code = "import sys, proxmesh; proxmesh.InputError; print('sklearn' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# -- in the hands of scikit-learn ------------------------------------------------------


@pytest.mark.long
def test_ensembles_calibration_and_processes() -> None:
    mine = classifier(model=Net, steps=60, module__width=6)
    scores = cross_val_score(mine, X, NAMES, cv=4, n_jobs=2, error_score="raise")
    assert scores.min() > 0.7
    others = [("mine", mine), ("other", LogisticRegression(max_iter=1000))]
    assert VotingClassifier(others, voting="soft").fit(X, NAMES).score(X, NAMES) > 0.9
    calibrated = CalibratedClassifierCV(mine, cv=2).fit(X, NAMES)
    assert calibrated.score(X, NAMES) > 0.85
