"""Compiles benchmark programs, once for each MPI: plain C, no tutti in it. Where there is no compiler, those that the wheel
brings are used."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tutti.errors import Failure
from tutti.host.mpis import Mpi, discover
from tutti.report.waiting import waiting

COMPILE_TIMEOUT_S = 120
FLAGS = ["-std=gnu11", "-O2"]


def source(name: str) -> Path:
    """A program's source: in the package, or in the repository that this runs from."""
    here = Path(__file__).resolve()
    for candidate in (Path(__file__).absolute().parent / name, here.parents[3] / "bench" / name):
        if candidate.is_file():
            return candidate
    raise Failure(f"the benchmark's source {name} is missing: pip install --force-reinstall tutti-mpi")


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tutti"


def has_compiler() -> bool:
    """Whether programs can be compiled here; an MPI's mpicc only calls one of these."""
    return _compiler() is not None


def ready_made(mpi: Mpi, file: Path) -> Path | None:
    """The program as the wheel brings it (tools/wheel.py), compiled for the MPI's binary interface."""
    interface = "openmpi" if mpi.name == "openmpi" else "mpich"
    program = Path(__file__).absolute().parent / "ready" / f"{file.stem}-{interface}"
    return program if program.is_file() else None


def compile_for(mpi: Mpi, file: Path, extra: list[str] | None = None) -> Path:
    """The program compiled for this MPI; compiles it unless that was done before. Raises Failure."""
    ready = None if has_compiler() or extra else ready_made(mpi, file)
    if ready is not None:
        return ready
    command = _compiler_command(mpi)
    flags = [*FLAGS, *(extra or [])]
    key = hashlib.sha256("\0".join([file.read_text(), *command, *flags, str(mpi.launcher), mpi.version]).encode())
    folder = cache_folder()
    program = folder / f"{file.stem}-{mpi.name}-{key.hexdigest()[:16]}"
    if program.is_file():
        return program
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot make {folder} for compiled programs: {error.strerror}; set XDG_CACHE_HOME") from None
    unfinished = program.with_suffix(f".{os.getpid()}")
    compiler, *libraries = command
    try:
        with waiting(f"compiling {file.name} for {mpi.product}"):
            answer = subprocess.run([compiler, *flags, file, "-o", unfinished, *libraries, "-lm"], capture_output=True,
                                    text=True, check=False, timeout=COMPILE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"cannot compile {file.name} for {mpi.product}: {error}") from None
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise Failure(f"cannot compile {file.name} for {mpi.product} with {compiler}: {said[0] if said else '?'}")
    unfinished.replace(program)
    return program


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


def _compiler_command(mpi: Mpi) -> list[str]:
    """The compiler, and what is to follow the source. An MPI without mpicc (Intel's runtime) is linked
    by hand, with the header of an MPICH, which has the same binary interface."""
    if mpi.compiler is not None:
        return [str(mpi.compiler)]
    compiler = _compiler()
    if compiler is None:
        raise Failure("no C compiler found (cc, gcc or clang): the benchmark programs are compiled here")
    places = [mpi.prefix / "lib" / "libmpi.so.12", mpi.prefix / "lib" / "release" / "libmpi.so.12"]
    library = next((path for path in places if path.exists()), None)
    if library is None:
        raise Failure(f"{mpi.product} in {mpi.prefix} has neither an mpicc nor a libmpi.so.12 to link with")
    return [compiler, f"-I{_header_folder(mpi)}", str(library)]


def _header_folder(mpi: Mpi) -> Path:
    own = mpi.prefix / "include"
    if (own / "mpi.h").is_file():
        return own
    for other in discover():
        if other.name == "mpich" and (other.prefix / "include" / "mpi.h").is_file():
            return other.prefix / "include"
    debian = Path(f"/usr/include/{os.uname().machine}-linux-gnu/mpich")
    if (debian / "mpi.h").is_file():
        return debian
    raise Failure(f"{mpi.product} in {mpi.prefix} has no mpi.h; install MPICH too (its mpi.h fits)")
