"""The programs of a job: what they are, and whether tutti can take them over."""

from __future__ import annotations

import enum
import os
from pathlib import Path

from tutti.errors import UserError
from tutti.launch import elf, loader
from tutti.launch.find import which
from tutti.launch.mpi_library import Abi
from tutti.launch.record import Record

SHEBANG_BYTES = 256
SHEBANG_DEPTH = 4  # as the kernel
STATIC_MPI = "its MPI is linked in statically"


class Reach(enum.Enum):
    """Whether tutti can come between a program and its MPI."""

    LINKED = "linked"    # it loads an MPI library at its start
    LOADED = "loaded"    # it may load one later (Python, a script, a program without MPI)
    STATIC = "static"    # statically linked, or its MPI is: nothing can be preloaded


class Program(Record):
    """One executable of a job."""

    name: str               # as on the command line
    path: Path | None       # None: not found here
    reach: Reach
    abi: Abi | None         # None: not known from the program alone
    why: str                # what the answer rests on, for messages


def examine(words: list[str], folder: str | None, environment: dict[str, str]) -> Program:
    """Looks at a program and its arguments. `folder`: the working directory it is started in.
    Follows scripts to their interpreters, and wrappers to the program among their arguments."""
    name = words[0]
    path = _resolve(name, folder, environment)
    if path is None:
        return Program(name, None, Reach.LOADED, None, "not found on this machine")
    program = _examine_file(name, path, environment)
    if program.reach is Reach.LINKED or program.abi is not None or program.why == STATIC_MPI:
        return program
    return _examine_arguments(program, words[1:], folder, environment)


def _resolve(name: str, folder: str | None, environment: dict[str, str]) -> Path | None:
    if "/" in name:
        path = Path(folder or ".") / name
        return path if path.is_file() and os.access(path, os.X_OK) else None
    found = which(name, environment.get("PATH"))
    if found is None and (Path(folder or ".") / name).is_file():
        # Launchers also look into the working directory, unlike shells.
        local = Path(folder or ".") / name
        found = str(local) if os.access(local, os.X_OK) else None
    return Path(found) if found else None


def _examine_file(name: str, path: Path, environment: dict[str, str]) -> Program:
    interpreter, depth = path, 0
    headers = elf.read_elf(interpreter)
    while headers is None and depth < SHEBANG_DEPTH:
        following = _shebang(interpreter, environment)
        if following is None:
            break
        interpreter, depth = following, depth + 1
        headers = elf.read_elf(interpreter)
    if headers is None:
        return Program(name, path, Reach.LOADED, None, "neither an ELF program nor a script")
    if headers.interpreter is not None:
        found = loader.needed_mpi(interpreter, headers, environment.get("LD_LIBRARY_PATH"))
        if found is not None:
            return Program(name, path, Reach.LINKED, found[0], f"it loads {found[1]}")
    if elf.defines_mpi(interpreter):
        return Program(name, path, Reach.STATIC, None, STATIC_MPI)
    if headers.interpreter is None:
        return Program(name, path, Reach.STATIC, None, "it is statically linked")
    return Program(name, path, Reach.LOADED, None, "it loads no MPI at its start")


def _shebang(path: Path, environment: dict[str, str]) -> Path | None:
    """The interpreter that a script names in its first line; through env where it says so."""
    try:
        with path.open("rb") as file:
            first = file.read(SHEBANG_BYTES)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].split(b"\n")[0].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words:
        return None
    found = which(words[0], environment.get("PATH"))
    return Path(found) if found else None


def _examine_arguments(program: Program, arguments: list[str], folder: str | None,
                       environment: dict[str, str]) -> Program:
    """A program that has no MPI of its own may start one that has: `numactl ./app`, `run.sh ./app`."""
    for word in arguments:
        path = None if word.startswith("-") else _resolve(word, folder, environment)
        if path is None or path.is_dir():
            continue
        inner = _examine_file(word, path, environment)
        if inner.reach is Reach.LINKED or inner.abi is not None or inner.why == STATIC_MPI:
            return Program(program.name, program.path, inner.reach, inner.abi, f"{word}: {inner.why}")
    return program


def missing(program: Program) -> UserError:
    return UserError(f"no executable '{program.name}' here; give the path of the program that the "
                     "launcher starts (./app for one in this folder)")
