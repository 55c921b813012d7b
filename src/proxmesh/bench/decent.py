"""Against decent-bench from PyPI, in an environment of its own (Python >= 3.13)."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from proxmesh.algorithms import DSGT
from proxmesh.bench.report import Measurement, Ratio
from proxmesh.bench.tasks import ROUND, Task, logistic
from proxmesh.bench.timing import Effort, Times, in_turns
from proxmesh.errors import InputError

__all__ = ["against_decent_bench"]

VARIABLE = "PROXMESH_DECENT_BENCH"
CHILD = Path(__file__).with_name("decent_child.py")
METHODS = {"HSM-ADMM": ROUND, "DSGT": DSGT()}
LIMITS = {8: 10.0, 64: 50.0}
QUICK_AGENTS = 8


def against_decent_bench(effort: Effort) -> Measurement:
    """Logistic regression, 123 features, 200 rows per agent, batch 64, on a ring."""
    python = _python()
    notes = [] if python else [_missing()]
    times: Times = {}
    ratios = []
    limits = {QUICK_AGENTS: LIMITS[QUICK_AGENTS]} if effort.quick else LIMITS
    for agents, limit in limits.items():
        with contextlib.ExitStack() as stack:
            columns: dict[str, Callable[[int], float]] = {}
            for name, method in METHODS.items():
                task = logistic(agents, algorithm=method)
                columns[f"{name}, n={agents}"] = _per_gradient(task)
            if python:
                asked = stack.enter_context(_child(python, agents))
                columns[f"ATC tracking, n={agents}"] = asked("ATC_Tracking")
                columns[f"DLM, n={agents}"] = asked("DLM")
            found = in_turns(columns, effort)
        times |= found
        if python:
            theirs = found[f"ATC tracking, n={agents}"].median
            for name in METHODS:
                ours = found[f"{name}, n={agents}"].median
                label = f"ATC tracking / {name}, n={agents}"
                ratios.append(Ratio(label, theirs / ours, at_least=limit))
    if python:
        notes.append(f"decent-bench {_version(python)}.")
    return Measurement(
        "logistic",
        "Logistic regression, time of one gradient of all agents, compiled, against "
        "decent-bench",
        measured=times,
        ratios=ratios,
        notes=notes,
    )


def _per_gradient(task: Task) -> Callable[[int], float]:
    gradients = task.algorithm.cost(1).gradients
    timed = task.iterating(task.compiled())
    return lambda repetitions: timed(repetitions) / gradients


def _python() -> str | None:
    """The interpreter that has decent-bench, if there is one."""
    asked = os.environ.get(VARIABLE)
    if asked and shutil.which(asked) is None:
        raise InputError(
            f"{VARIABLE} is `{asked}`, which is not a program. Name the Python "
            "that has decent-bench, or leave the variable out."
        )
    return asked or None


def _version(python: str) -> str:
    code = "import sys, importlib.metadata as m; print(m.version('decent-bench'), "
    code += "'on Python', sys.version.split()[0])"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "of an unknown version"


def _missing() -> str:
    return (
        "decent-bench is left out: it needs an environment of its own with Python >= "
        f"3.13. Set {VARIABLE} to its interpreter; in the repository, `make bench` "
        "makes one where that Python is found."
    )


@contextlib.contextmanager
def _child(
    python: str, agents: int
) -> Iterator[Callable[[str], Callable[[int], float]]]:
    """Start decent-bench in its own interpreter; it measures when it is asked to."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [python, str(CHILD), str(agents)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **single},
    ) as process:

        def asked(method: str) -> Callable[[int], float]:
            def timed(repetitions: int) -> float:
                assert process.stdin is not None
                assert process.stdout is not None
                print(method, repetitions, file=process.stdin, flush=True)
                answer = process.stdout.readline()
                if not answer:
                    raise RuntimeError("decent-bench ended early, see above.")
                return float(answer)

            return timed

        try:
            yield asked
        finally:
            process.kill()
