from pathlib import Path

import numpy as np
import pytest

import proxmesh as pm
from proxmesh.runs.build import build
from proxmesh.runs.config import load_config

SMALL = ["data.name=breast-cancer", "run.steps=4", "run.batch=4"]


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text('seed = 3\n[graph]\nname = "star"\nagents = 5\n[run]\nsteps = 7\n')
    config = load_config(file, {"graph.agents": 6, "run.batch": None}, ["seed=4"])
    assert (config.seed, config.graph.name, config.graph.agents) == (4, "star", 6)
    assert (config.run.steps, config.run.batch) == (7, 64)


def test_a_bare_word_is_a_string_and_toml_values_keep_their_type() -> None:
    config = load_config(
        None, None, ["data.name=digits", "algorithm.k0=3", "algorithm.c_a=0.5"]
    )
    assert config.data.name == "digits"
    assert config.algorithm.options == {"k0": 3, "c_a": 0.5}


def test_the_complete_config_prepares_the_same_run(tmp_path: Path) -> None:
    built = build(load_config(None, {"graph.name": "erdos-renyi"}, SMALL))
    first = built.prepare(tmp_path / "run")
    first.go()
    again = build(load_config(tmp_path / "run" / "config.toml")).prepare()
    assert again.config == first.config
    assert again.graph == first.graph
    assert again.algorithm == first.algorithm
    assert first.config is not None
    assert first.config["model"]["hidden"] == 64
    assert first.config["regularizer"]["weight"] == 1e-4


def test_one_seed_feeds_separate_streams() -> None:
    def edges(*more: str) -> object:
        config = load_config(None, {"graph.name": "barabasi-albert"}, [*SMALL, *more])
        return build(config).graph.edges

    assert edges() == edges()
    assert edges() != edges("seed=1")
    assert edges("graph.seed=7") == edges("graph.seed=7", "seed=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[run]\nsteps = 10\nstepz = 4\n",
            "unknown option `stepz` of section `run`. Did you mean `steps`?",
        ),
        ("[run]\nsteps = 10\nstepz = 4\n", "line 3"),
        ('seed = 1\n\n[grph]\nname = "ring"\n', "Did you mean `graph`?"),
        ('seed = 1\n\n[grph]\nname = "ring"\n', "line 3"),
        ("[run]\nsteps = 0\n", "`run.steps` must be greater than or equal to 1, got 0"),
        ("[run\nsteps = 1\n", "is not valid TOML"),
        ("[run\nsteps = 1\n", "line 1"),
        ("[run]\nbatch = 1.5\n", "line 2"),
        ("[algorithm]\nc_a = 1\nc_roh = 1\n", "Did you mean `c_rho`?"),
        ("[algorithm]\nc_a = 1\nc_roh = 1\n", "line 3"),
        ("[algorithm]\nc_rho = -1\n", "line 2"),
        ("[graph]\nagnets = 4\n", "Did you mean `agents`?"),
        ("[graph]\nagnets = 4\n", "line 2"),
        ('[data]\nsplt = "by-label"\n', "Did you mean `split`?"),
        ("[model]\nhidden = 0\n", "`hidden` must be a whole number of at least 1"),
        ("[model]\nhidden = 0\n", "line 2"),
    ],
)
def test_typos_in_a_file_are_named_with_their_line(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "task.toml"
    file.write_text(text)
    with pytest.raises(pm.InputError) as caught:
        build(load_config(file, {"graph.name": None}))
    assert message in str(caught.value)
    assert "task.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["steps"], "`--set steps` is not an assignment"),
        (["run.dtype=int"], "`run.dtype` must be 'float32' or 'float64', got 'int'."),
        (["seed.x=1"], "`seed` must be a valid integer"),
        (["algorithm.name=hsm_admm"], "Did you mean `hsm-admm`?"),
        (["algorithm.c_rh=1"], "unknown option `c_rh` of algorithm `hsm-admm`."),
        (["algorithm.c_rho=abc"], "`c_rho` must be a valid number"),
        (["algorithm.c_rho=-1"], "`c_rho` must be positive and finite, got -1.0."),
        (["algorithm.c_eta=inf"], "`c_eta` must be positive and finite, got inf."),
        (["algorithm.c_rho=true"], "`c_rho` must be a number, got True."),
        (["run.device=meta"], "device `meta` holds no numbers"),
        (["algorithm.heterogeneous=maybe"], "must be a valid boolean"),
        (["graph.agents=1"], "needs at least 2 agents, got n=1"),
        (["graph.name=rng"], "Did you mean `ring`?"),
        (["graph.prob=1"], "unknown option `prob` of graph `ring`. Known: agents."),
        (["data.name=a8a"], "unknown dataset `a8a`. Did you mean `a9a`?"),
        (["data.samples=3"], "unknown option `samples` of dataset"),
        (["data.split=by-lable"], "Did you mean `by-label`?"),
        (["data.alpha=0.1"], "belongs to the split `dirichlet`"),
        (["model.name=lnet"], "Did you mean `lenet`?"),
        (["model.name=lenet"], "needs 28 x 28 images"),
        (["model.hiden=3"], "unknown option `hiden` of model `mlp`."),
        (["model.init=random"], "`model.init` must be 'same' or 'different'"),
        (["regularizer.name=l3"], "unknown regularizer `l3`."),
        (["regularizer.name=box"], "needs a value for `lower` and `upper`."),
        (["regularizer.weight=-1"], "`weight` must be finite and not negative"),
        (["regularizer.only=*.weigh"], "unknown parameter `*.weigh` of the model."),
        (["run.batch=100000"], "`batch_size` is 100000 but the whole training set"),
        (["run.device=cuda:99"], "device `cuda:99` cannot be used"),
        (["run.device=tpux"], "device `tpux` cannot be used"),
        (["graph.agents=500"], "500 agents but only 426 training samples"),
    ],
)
def test_wrong_names_and_values(assignments: list[str], message: str) -> None:
    base = [a for a in SMALL if a.split("=")[0] != assignments[0].split("=")[0]]
    with pytest.raises(pm.InputError) as caught:
        build(load_config(None, None, [*base, *assignments]))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_regularizer_on_named_parameters_and_other_kinds() -> None:
    job = build(
        load_config(
            None, None, [*SMALL, "regularizer.only=*.weight", "regularizer.weight=2.0"]
        )
    )
    row = job.problem.x0()[:1]
    after = job.problem.layout.unflatten(job.problem.prox(row, 1.0)[0])
    before = job.problem.layout.unflatten(row[0])
    for name, value in after.items():
        assert (value == before[name]).all() == name.endswith("bias")
    build(
        load_config(
            None,
            None,
            [*SMALL, "regularizer.name=group-lasso", "regularizer.weight=1e-3"],
        )
    )


def test_flat_images_suit_lenet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.random((40, 28, 28)), np.arange(40) % 3
    np.savez(tmp_path / "a.npz", x=pixels, y=labels)
    job = build(
        load_config(
            None,
            {"data.name": str(tmp_path / "a.npz"), "model.name": "lenet"},
            ["graph.agents=4", "run.batch=2"],
        )
    )
    assert job.problem.sample(0).inputs[0].shape == (4, 2, 1, 28, 28)


@pytest.mark.parametrize("text", ["run = 3", "algorithm = 3", "run.automatic = 3"])
def test_sections_that_are_none_are_refused_in_one_line(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(pm.InputError, match="must be"):
        load_config(file, {"run.steps": None, "data.dir": "x"})
