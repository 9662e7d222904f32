"""How each MPI is started for a benchmark: at its best settings, not at its worst.

The settings were found by trying each MPI's documented variables on two cores with 2, 4 and 8 ranks
(bench/README.md has the figures); tutti runs over an MPI with the same ones."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tutti.bench.program import has_compiler
from tutti.errors import UserError
from tutti.host.mpis import Mpi


@dataclass(frozen=True)
class Settings:
    """Environment and launcher options of one MPI for one number of ranks."""

    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    why: str = "defaults: nothing that was tried is better"

    def text(self) -> str:
        parts = [f"{name}={value}" for name, value in self.environment.items()] + list(self.options)
        return " ".join(parts) if parts else "defaults"


_MPICH_BUSY = Settings(
    {f"MPIR_CVAR_{name}_POSIX_INTRA_ALGORITHM": "mpir" for name in ("BARRIER", "BCAST", "REDUCE", "ALLREDUCE")},
    why="its shared-memory collectives spin without yielding: 8 ms where these take 20 us")
_OPENMPI_FULL = Settings(
    {}, ("--mca", "coll_sm_priority", "95"),
    why="its shared-memory component is off by default: broadcasts of 4 KiB take 0.4 us instead of 3")
_OPENMPI_BUSY = Settings({}, ("--mca", "mpi_yield_when_idle", "1"), why="waiting ranks give way")
_INTEL_BUSY = Settings({"I_MPI_FABRICS": "shm"}, why="on one node; a little faster than shm:ofi")

_BEST = {  # (MPI, more ranks than processors)
    ("mpich", False): Settings(),
    ("mpich", True): _MPICH_BUSY,
    ("openmpi", False): _OPENMPI_FULL,
    ("openmpi", True): _OPENMPI_BUSY,
    ("impi", False): Settings(),
    ("impi", True): _INTEL_BUSY,
}


# In a lab, whose nodes share the processors of one machine, over TCP. Taken from the settings that are best with more
# ranks than processors on one node; alternatives have not been compared in a lab yet.
_LAB = {
    "mpich": _MPICH_BUSY,
    "openmpi": Settings({}, ("--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "tcp,self,sm"),
                        why="waiting ranks give way"),
    "openmpi 4": Settings({}, ("--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "tcp,self,vader"),
                          why="waiting ranks give way"),  # another name for its shared memory
    "impi": Settings({"FI_PROVIDER": "tcp"}),
}


def lab_settings(mpi: Mpi) -> Settings:
    """The settings that a peer is measured with in a lab."""
    old = mpi.name == "openmpi" and mpi.version.startswith("4.")
    return _LAB["openmpi 4" if old else mpi.name]


def best_settings(mpi: Mpi, ranks: int, processors: int) -> Settings:
    """The settings that a peer is measured with."""
    return _BEST[mpi.name, ranks > processors]


def parse(text: str, option: str) -> tuple[str, Settings]:
    """MPI=SETTINGS as a name and what it is started with: variables (NAME=VALUE) first, then options of its launcher.
    Raises UserError."""
    name, equals, rest = text.partition("=")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}") from None
    if not equals or not name or not words:
        raise UserError(f"{option} {text}: expected an MPI and its settings, as in openmpi='--mca coll_xhc_priority 95' or "
                        "mpich='MPIR_CVAR_CH4_CMA_ENABLE=0 -bind-to core'")
    options = list(itertools.dropwhile(_is_variable, words))
    variables = dict(word.split("=", 1) for word in words[:len(words) - len(options)])
    return name, Settings(variables, tuple(options), why="asked for")


def _is_variable(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def needed_options(mpi: Mpi) -> list[str]:
    """Options without which it does not start here at all."""
    if mpi.name != "openmpi":
        return []
    return ["--oversubscribe"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def needed_environment(mpi: Mpi) -> dict[str, str]:
    """Variables without which it does not find its own parts (Intel MPI outside its own shell set-up), or programs that
    were compiled elsewhere do not find it."""
    library = mpi.prefix / "lib"
    inherited = os.environ.get("LD_LIBRARY_PATH")
    if mpi.name != "impi" or os.environ.get("I_MPI_ROOT"):
        path = f"{library}:{inherited}" if inherited else str(library)
        return {} if has_compiler() else {"LD_LIBRARY_PATH": path}
    providers = library if any(library.glob("*-fi.so")) else library / "libfabric" / "prov"
    return {"I_MPI_ROOT": str(mpi.prefix), "FI_PROVIDER_PATH": str(providers),
            "LD_LIBRARY_PATH": f"{library}:{inherited}" if inherited else str(library)}


def command_line(mpi: Mpi, ranks: int, settings: Settings, program: list[str]) -> list[str]:
    return [str(mpi.launcher), *needed_options(mpi), *settings.options, "-n", str(ranks), *program]


def environment(mpi: Mpi, settings: Settings) -> dict[str, str]:
    """The environment of a launch; without tutti's variables, which are added where it takes part."""
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    path = f"{Path(mpi.launcher).parent}:{inherited.get('PATH', '')}"
    return {**inherited, **needed_environment(mpi), **settings.environment, "PATH": path}
