"""Command lines and programs, read from Markdown pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = {"", "sh", "bash", "console"}  # languages of blocks that may hold commands
COMMAND = re.compile(
    r"([A-Z_]+=\S+ )*"  # variables
    r"(\.venv/bin/)?"
    r"(proxmesh|mpiexec|torchrun|python3?|make|pytest|pip|srun|sbatch|kubectl|sysctl)"
    r" +\S"  # a name alone is no command line
)
BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+(\n[^`\n]+)?)`")
INCLUDE = re.compile(r'--8<-- "([^":]+)(?::(\w+))?"')


@dataclass(frozen=True)
class Command:
    """A command line, where it stands, and what the page says that it prints."""

    place: str  # file:line
    text: str
    printed: tuple[str, ...] = ()


def pages() -> Iterator[Path]:
    """Every page that shows commands to users or developers."""
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    yield from (ROOT / "benchmarks" / "README.md", ROOT / "examples" / "README.md")
    yield from sorted((ROOT / "docs").rglob("*.md"))


def commands(page: str, text: str) -> Iterator[Command]:
    """Every command line of a page, in shell blocks and between backticks."""
    for block in BLOCK.finditer(text):
        if block[1] in SHELL:
            yield from _of_block(page, _line(text, block.start(2)), block[2])
    prose = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for span in SPAN.finditer(prose):
        words = " ".join(span[1].split())
        if COMMAND.match(words):
            yield Command(f"{page}:{_line(prose, span.start())}", words)


def python_blocks(text: str) -> list[str]:
    """The Python blocks of a page with what they include, but for whole files.

    Files are programs of their own; a part of another page is none.
    """

    def included(match: re.Match[str]) -> str:
        if match[2] is None:
            return ""
        marker = r"<!-- --8<-- \[{}:{}\] -->"
        start, end = (marker.format(side, match[2]) for side in ("start", "end"))
        part = re.search(f"{start}(.*){end}", (ROOT / match[1]).read_text(), re.DOTALL)
        assert part, f"{match[0]} includes nothing"
        return part[1]

    blocks = BLOCK.findall(INCLUDE.sub(included, text))
    return [code for language, code in blocks if language == "python" and code.strip()]


def _of_block(page: str, first: int, block: str) -> list[Command]:
    """Where lines have prompts, what has none is printed by the command above it."""
    found: list[Command] = []
    prompts = re.search(r"^ *\$ ", block, re.MULTILINE) is not None
    begun, start = "", first
    for number, line in enumerate(block.splitlines(), start=first):
        start = start if begun else number
        begun += re.sub(r"\s+#.*", "", line).strip()
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        words, begun = begun.removeprefix("$ "), ""
        if prompts and not line.lstrip().startswith("$ "):
            found[-1] = replace(found[-1], printed=(*found[-1].printed, words))
        elif COMMAND.match(words):
            found.append(Command(f"{page}:{start}", words))
    return found


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
