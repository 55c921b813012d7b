"""A checkpoint: everything that a run needs to go on, in files anybody can read.

::

    RUN/checkpoint/000000500/manifest.json         what it is, with a hash of every file
                             rank-0.safetensors    its agents' rows of every tensor
                             rank-1.safetensors

A checkpoint is there when its folder has its name: until then it is written aside, as
``.writing-000000500``, and the manifest comes last. Nothing in it can run code.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, final

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.solver.durable import sha256_of, synced, written
from proxmesh.solver.journal import (
    Journal,
    Seen,
    rows_as_tensor,
    rows_from_tensor,
    seen_as_tensors,
    seen_from_tensors,
)
from proxmesh.solver.method_as_text import from_written
from proxmesh.solver.state import rebuilt, tensors_of
from proxmesh.types import BY_EDGE

__all__ = [
    "Checkpoint",
    "LaterFormatError",
    "Manifest",
    "RankFile",
    "checkpoints_in",
    "described_by",
    "drop",
    "fingerprint",
    "is_aside",
    "put_in_place",
    "write_rank_file",
]

FORMAT: Final = 1
MANIFEST = "manifest.json"
MOST_BYTES_OF_MANIFEST = 256 * 2**20
OF_THE_RUN = "run."  # a dot: no field of a state
HISTORY, THEORY = f"{OF_THE_RUN}history", f"{OF_THE_RUN}theory"
EACH_AGENT, FIRST_LAYER = f"{OF_THE_RUN}agents", f"{OF_THE_RUN}first_layer"
WRITING = ".writing-"

S = TypeVar("S")


class LaterFormatError(InputError):
    """A checkpoint of a version that is still to come."""


class RankFile(BaseModel):
    """One file of rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^rank-\d{1,9}\.safetensors$")]
    agents: list[int]
    bytes: int
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What a checkpoint is of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = FORMAT
    version: str  # of proxmesh
    iteration: Annotated[int, Field(ge=0)]
    begin: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0)]
    limit: float | None  # None: there is none yet
    columns: list[str]
    theory_columns: list[str]
    engine: str
    agents: Annotated[int, Field(ge=1)]
    edges: list[tuple[int, int]]
    facts: dict[str, str]  # all that decides the numbers of the run, in words
    config_sha256: str  # of these facts
    settings: dict[str, Any]
    algorithm: dict[str, Any]
    links: list[dict[str, Any]] = []
    problem: dict[str, Any]  # how it was computed, where that was measured
    config: dict[str, Any] | None
    files: list[RankFile]


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One that is in its place.

    Parameters
    ----------
    path
        Its folder.
    manifest
        What it says of itself.
    """

    path: Path
    manifest: Manifest

    @staticmethod
    def opened(path: Path) -> "Checkpoint":
        """Read the manifest, or say in one line what is wrong with it."""
        file = path / MANIFEST
        try:
            if file.stat().st_size > MOST_BYTES_OF_MANIFEST:
                raise InputError(f"`{file}` is larger than any manifest.")
            tree = json.loads(file.read_text(encoding="utf-8"))
            told = tree.pop("sha256")
            if int(tree.get("format", 0)) > FORMAT:
                raise LaterFormatError(
                    f"`{file}` was written by a later version ({tree.get('version')}) "
                    "of proxmesh. Install that one."
                )
            if told != fingerprint(tree):
                raise InputError(f"`{file}` does not have the hash that it names.")
            return Checkpoint(path, Manifest.model_validate(tree))
        except OSError as error:
            raise InputError(f"`{file}` cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"`{file}`: `{where}`: {first['msg']}.") from error
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError
        ) as error:  # fmt: skip
            if isinstance(error, InputError):
                raise
            raise InputError(f"`{file}` is not a manifest.") from error

    @property
    def iteration(self) -> int:
        """Finished iterations."""
        return self.manifest.iteration

    def require_whole(self, agents: Sequence[int]) -> None:
        """Refuse it if a file with rows of these agents is not what was written."""
        known = {agent for file in self.manifest.files for agent in file.agents}
        if known != set(range(self.manifest.agents)):
            raise InputError(f"`{self.path}` does not hold every agent's rows.")
        for file in self._files_of(agents):
            path = self.path / file.name
            try:
                size = path.stat().st_size
                same = size == file.bytes and sha256_of(path) == file.sha256
            except OSError as error:
                raise InputError(
                    f"`{path}` cannot be read: {error.strerror}."
                ) from error
            if not same:
                raise InputError(f"`{path}` is not the file that was written.")

    def tensors(self, agents: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        """These agents' part of the state, whichever ranks wrote it."""
        found: dict[str, Tensor] = {}
        parts: dict[str, dict[int, Tensor]] = {}
        for file in self._files_of(agents):
            for name, value in self._read(file).items():
                if name.startswith(OF_THE_RUN):
                    continue
                if value.ndim == 0:
                    found[name] = value.clone()
                    continue
                counts = self._counts(name, file.agents)
                if len(value) != sum(counts):
                    raise InputError(
                        f"`{self.path / file.name}`: `{name}` has {len(value)} rows "
                        f"for {len(file.agents)} agents."
                    )
                rows = parts.setdefault(name, {})
                rows.update(zip(file.agents, value.split(counts), strict=True))
        for name, rows in parts.items():
            found[name] = torch.cat([rows[agent] for agent in agents]).to(device)
        return found

    def _counts(self, name: str, agents: Sequence[int]) -> list[int]:
        """Rows that each agent has in a field: one, or one for each of its edges."""
        if not name.endswith(BY_EDGE):
            return [1] * len(agents)
        ends = Counter(end for edge in self.manifest.edges for end in edge)
        return [ends[agent] for agent in agents]

    def state(self, kind: type[S], tensors: Mapping[str, Tensor]) -> S:
        """The tensors as a state of this kind."""
        names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        if names != set(tensors) or int(tensors["k"]) != self.iteration:
            raise InputError(
                f"`{self.path}` holds {', '.join(sorted(tensors))}, which is not a "
                f"`{kind.__name__}` of iteration {self.iteration}."
            )
        return rebuilt(kind, tensors)

    def journal(self, agents: Sequence[int]) -> Journal:
        """What the run had seen; of rows per agent, those of these agents."""
        manifest = self.manifest
        by_agent = "agent" in manifest.columns
        files = self._files_of(agents) if by_agent else manifest.files[:1]
        rows: list[Mapping[str, float]] = []
        theory: list[dict[str, float]] = []
        agents_seen: list[Seen] = []
        patterns: list[Seen] = []
        for file in files:
            tensors = self._read(file)
            read = rows_from_tensor(tensors[HISTORY], manifest.columns)
            rows += [r for r in read if not by_agent or r["agent"] in set(agents)]
            theory = rows_from_tensor(tensors[THEORY], manifest.theory_columns)
            agents_seen = seen_from_tensors(EACH_AGENT, tensors)
            patterns = seen_from_tensors(FIRST_LAYER, tensors)
        if by_agent:
            rows.sort(key=lambda row: (row["iteration"], row["agent"]))
        limit = float("inf") if manifest.limit is None else manifest.limit
        return Journal(
            begin=manifest.begin,
            rows=rows,
            columns=manifest.columns,
            limit=limit,
            theory=theory,
            seconds=manifest.seconds,
            agents=agents_seen,
            patterns=patterns,
        )

    def require_same(self, facts: Mapping[str, str]) -> None:
        """Refuse to go on with a run that is another one."""
        before = dict(self.manifest.facts)
        method = from_written(self.manifest.algorithm)
        if (
            method is not None
        ):  # with options that it did not have then at their default
            before["algorithm"] = repr(method)
        for name in sorted({*before, *facts}):
            if before.get(name) != facts.get(name):
                raise InputError(
                    f"the run in `{self.path.parent.parent}` cannot go on: its "
                    f"{name} was {_short(before.get(name))}, now it is "
                    f"{_short(facts.get(name))}. Leave that as it was, or start a new "
                    "run in another folder."
                )

    def _files_of(self, agents: Sequence[int]) -> list[RankFile]:
        wanted = set(agents)
        return [f for f in self.manifest.files if wanted & set(f.agents)]

    def _read(self, file: RankFile) -> dict[str, Tensor]:
        path = self.path / file.name
        try:
            with safe_open(path, "pt") as opened:
                return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise InputError(f"`{path}` cannot be read: {error}.") from error


def checkpoints_in(place: Path) -> list[Path]:
    """The folders of checkpoints, the newest first."""
    with contextlib.suppress(OSError):
        found = [p for p in place.iterdir() if p.name.isdecimal() and p.is_dir()]
        return sorted(found, key=lambda p: int(p.name), reverse=True)
    return []


def write_rank_file(
    place: Path, rank: int, agents: Sequence[int], state: Any, journal: Journal
) -> RankFile:
    """Write one rank's rows aside, down to the disk."""
    folder = place / f"{WRITING}{int(state.k):09d}"
    place.mkdir(exist_ok=True)  # but not the run folder, if that is gone
    folder.mkdir(exist_ok=True)
    tensors = {
        HISTORY: rows_as_tensor(journal.rows, journal.columns),
        THEORY: rows_as_tensor(journal.theory, _names(journal.theory)),
        **seen_as_tensors(EACH_AGENT, journal.agents),
        **seen_as_tensors(FIRST_LAYER, journal.patterns),
    }
    kept: set[int] = set()
    for name, value in tensors_of(state).items():
        own = value.detach().cpu().contiguous()
        if own.data_ptr() in kept:  # at the start fields may share their memory
            own = own.clone()
        kept.add(own.data_ptr())
        tensors[name] = own
    file = folder / f"rank-{rank}.safetensors"
    save_file(tensors, str(file))
    found = RankFile(
        name=file.name,
        agents=list(agents),
        bytes=file.stat().st_size,
        sha256=sha256_of(file),
    )
    synced(file)
    return found


def described_by(
    common: Mapping[str, Any], iteration: int, journal: Journal, files: list[RankFile]
) -> Manifest:
    """The manifest of one checkpoint of a run, of which `common` tells the rest."""
    return Manifest.model_validate(
        {
            **common,
            "iteration": iteration,
            "begin": journal.begin,
            "seconds": journal.seconds,
            "limit": journal.limit if math.isfinite(journal.limit) else None,
            "columns": journal.columns,
            "theory_columns": _names(journal.theory),
            "files": files,
        }
    )


def put_in_place(place: Path, manifest: Manifest, keep: int) -> None:
    """Write the manifest, give the folder its name, and let older ones go."""
    name = f"{manifest.iteration:09d}"
    aside = place / f"{WRITING}{name}"
    tree = manifest.model_dump(mode="json")
    written(aside / MANIFEST, _one_line_each({**tree, "sha256": fingerprint(tree)}))
    if (place / name).exists():  # a damaged one, before which the run went on
        shutil.rmtree(place / name)
    aside.rename(place / name)
    synced(place)
    for old in checkpoints_in(place)[keep:]:
        shutil.rmtree(old, ignore_errors=True)


def is_aside(place: Path, iteration: int) -> bool:
    """Whether the checkpoint of this iteration is still being written here."""
    return (place / f"{WRITING}{iteration:09d}").exists()


def drop(place: Path, after: int | None = None) -> None:
    """Remove what was being written when a run ended, and all `after` an iteration."""
    with contextlib.suppress(OSError):
        for left in place.glob(f"{WRITING}*"):
            shutil.rmtree(left, ignore_errors=True)
    if after is not None:
        for path in checkpoints_in(place):
            if int(path.name) > after:
                shutil.rmtree(path, ignore_errors=True)


def fingerprint(tree: Any) -> str:
    """One number for a tree of JSON, whatever the order of its keys."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _one_line_each(tree: Mapping[str, Any]) -> str:
    """JSON for people: a line for each key, however long a list of edges."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in tree.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _names(rows: Sequence[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _short(value: str | None) -> str:
    text = "not set" if value is None else value
    return text if len(text) <= 80 else f"{text[:77]}..."
