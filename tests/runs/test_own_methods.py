"""Classes in files of one's own take part like any method."""

from pathlib import Path

import pytest

import proxmesh as pm
from proxmesh.runs.build import build, build_algorithm
from proxmesh.runs.config import load_config
from proxmesh.runs.methods import by_label, method_named, whole_name
from proxmesh.runs.presets import DEFAULTS, changed
from proxmesh.runs.spaces import Range, load_spaces
from proxmesh.solver.reading import method_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
NAME = f"{EXAMPLE}:AdaptThenCombine"


def test_a_class_is_found_by_its_file_from_any_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    short = "own_method.py:AdaptThenCombine"
    assert whole_name(short) == NAME
    flags = {"algorithm.name": short, "algorithm.alpha": 0.5, "graph.agents": 4}
    built = build(load_config(None, {**flags, "data.name": "breast-cancer"}))
    assert repr(built.algorithm) == "AdaptThenCombine(alpha=0.5)"
    tree = built.tree()
    assert tree["algorithm"] == {"name": NAME, "alpha": 0.5}
    assert method_in(tree) == "AdaptThenCombine"
    assert type(built.algorithm) is method_named(NAME).kind, "loaded once"


def test_labels_are_the_names_of_classes(tmp_path: Path) -> None:
    assert by_label(["dsgt", NAME, NAME]) == {"dsgt": "dsgt", "AdaptThenCombine": NAME}
    with pytest.raises(pm.InputError, match="both called `AdaptThenCombine`"):
        by_label([NAME, f"{tmp_path}/other.py:AdaptThenCombine"])


def test_values_and_a_search_space_are_those_of_the_class(tmp_path: Path) -> None:
    own = {"AdaptThenCombine": NAME}
    space = load_spaces(None, own)["AdaptThenCombine"]
    assert space.dimensions == {"alpha": Range(low=0.02, high=1.0)}
    file = tmp_path / "space.toml"
    file.write_text("[AdaptThenCombine]\nalpha = { low = 0.1, high = 0.2 }\n")
    space = load_spaces(str(file), own)["AdaptThenCombine"]
    assert space.dimensions == {"alpha": Range(low=0.1, high=0.2)}
    known = changed(DEFAULTS, {"AdaptThenCombine": {"algorithm": NAME}})
    fine = changed(known, {"AdaptThenCombine": {"alpha": 0.3}})
    assert fine.section("AdaptThenCombine") == {"name": NAME, "alpha": 0.3}
    with pytest.raises(pm.InputError, match="unknown option `beta` of algorithm"):
        changed(known, {"AdaptThenCombine": {"beta": 0.3}})


FILES = {
    "empty.py": "",
    "broken.py": "x = 1\nprint(y)\n",
    "syntax.py": "def f(:\n",
    "ends.py": "raise SystemExit(3)\n",
    "half.py": "class Half:\n    def step(self): ...\n",
    "plain.py": "class Plain:\n"
    "    def init(self): ...\n    def step(self): ...\n    def cost(self): ...\n",
}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.py:A", r"there is no file `.*nothing.py`. Write FILE.py:CLASS."),
        ("half.py", r"algorithm `half.py` is a file. Name the class in it, such as"),
        ("empty.py:A", r"unknown class `A` of `empty.py`. Known: none."),
        ("half.py:Hlf", r"unknown class `Hlf` of `half.py`. Did you mean `Half`"),
        (
            "half.py:Half",
            r"`Half` of `half.py` is not an algorithm: it has no `init`, `c",
        ),
        ("plain.py:Plain", r"is not a dataclass, so its values cannot be written"),
        ("broken.py:A", r"broken.py` cannot be loaded: NameError: .* \(line 2\)."),
        ("syntax.py:A", r"syntax.py` cannot be loaded: SyntaxError: .* \(line 1\)."),
        ("ends.py:A", r"ends.py` cannot be loaded: SystemExit: 3 \(line 1\)."),
        ("mine:A", r"unknown algorithm `mine:A`."),
    ],
)
def test_what_cannot_be_a_method_is_one_line(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    with pytest.raises(pm.InputError, match=message) as refused:
        build_algorithm(load_config(None, {"algorithm.name": name}))
    assert "\n" not in str(refused.value)
