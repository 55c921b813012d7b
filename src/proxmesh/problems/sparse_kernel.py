"""The kernels of sparse_kernels.c, compiled on first use where there is a compiler.

The library lies in the user's cache folder, under a name that tells source, compiler
and machine. Nothing needs it: without a compiler the same products are taken in torch.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from proxmesh.data.download import cache_folder

__all__ = ["has_kernel", "kernel", "why_no_kernel"]

COMPILERS = ("cc", "gcc", "clang", "g++")
FLAGS = ("-x", "c", "-std=c11", "-O3", "-march=native", "-shared", "-fPIC")
SECONDS = 60  # that compiling may take; it takes one
DTYPES = {torch.float32: "float32", torch.float64: "float64"}
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64
FORWARD: list[Any] = [POINTER, NUMBER, *[POINTER] * 5, *[NUMBER] * 4, ctypes.c_int]
BACKWARD: list[Any] = [*[POINTER] * 6, *[NUMBER] * 4, ctypes.c_int]


def has_kernel(like: torch.Tensor) -> bool:
    """Whether there is a kernel for tensors like this one.

    Parameters
    ----------
    like
        A tensor of the precision and on the device in question.
    """
    return (
        like.dtype in DTYPES and like.device.type == "cpu" and _library()[0] is not None
    )


def why_no_kernel() -> str | None:
    """What keeps the kernels from being compiled; None: nothing."""
    return _library()[1]


def kernel(name: str, dtype: torch.dtype) -> Any:
    """A function of the library, which must be there.

    Parameters
    ----------
    name
        ``forward`` or ``backward``.
    dtype
        The precision that it computes in.
    """
    functions = _library()[0]
    assert functions is not None
    return functions[f"{DTYPES[dtype]}_{name}"]


@cache
def _library() -> tuple[dict[str, Any] | None, str | None]:
    """The functions of the loaded library by name, or why there are none."""
    try:
        found = ctypes.CDLL(str(_built()))
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error).strip().splitlines()[0]
    functions = {}
    for dtype in DTYPES.values():
        for name, arguments in (("forward", FORWARD), ("backward", BACKWARD)):
            function = found[f"{dtype}_{name}"]
            function.argtypes, function.restype = arguments, ctypes.c_int
            functions[f"{dtype}_{name}"] = function
    return functions, None


def _built() -> Path:
    """The library in the cache folder, compiled if it is not there."""
    compiler = _compiler()
    source = resources.files("proxmesh.problems").joinpath("sparse_kernels.c")
    text = source.read_bytes()
    facts = (*compiler, *FLAGS, platform.platform(), _processor())
    mark = hashlib.sha256(text + repr(facts).encode()).hexdigest()[:16]
    folder = cache_folder() / "kernels"
    library = folder / f"sparse-{mark}.so"
    if library.exists():
        return library
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as private:
        fresh = Path(private, "library.so")
        subprocess.run(
            [*compiler, *FLAGS, "-o", str(fresh), "-"],
            input=text,
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        fresh.replace(library)  # at once, whoever else compiles it now
    return library


def _compiler() -> list[str]:
    given = shlex.split(os.environ.get("CC", ""))
    for command in ([given] if given else []) + [[name] for name in COMPILERS]:
        if shutil.which(command[0]):
            return command
    raise FileNotFoundError("no C compiler was found: install gcc, or set CC")


def _processor() -> str:
    """What `-march=native` depends on: a home folder may be shared by many machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), "")
