"""What the tests of the lab share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tutti import lab as labs
from tutti.bench import peers
from tutti.host import mpis

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"


@pytest.fixture(autouse=True)
def needs_a_lab(request):
    """Skips what needs a lab where none can be had; tests marked `anywhere` do not."""
    reason = labs.why_not()
    if reason is not None and request.node.get_closest_marker("anywhere") is None:
        pytest.skip(reason)


@pytest.fixture(params=["mpich", "openmpi", "impi"])
def mpi(request) -> mpis.Mpi:
    found = mpis.in_folder(ROOT / ".envs" / request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed in .envs (make test installs it)")
    return found


@pytest.fixture
def launch(mpi) -> Callable[[int, list[str]], tuple[list[str], dict[str, str]]]:
    """launch(ranks, program): the command line and the environment of this MPI."""

    def make(ranks: int, program: list[str]) -> tuple[list[str], dict[str, str]]:
        settings = peers.Settings()
        return peers.command_line(mpi, ranks, settings, program), peers.environment(mpi, settings)

    return make


@pytest.fixture
def python() -> Callable[..., list[str]]:
    """python("udp_echo.py", ...): the command of one of the programs of this folder."""

    def make(name: str, *arguments: object) -> list[str]:
        return [sys.executable, str(PROGRAMS / name), *map(str, arguments)]

    return make


@pytest.fixture
def lab_command(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `tutti lab` with these arguments."""

    def run(*arguments: str, timeout: float = 60, **more) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tutti", "lab", *arguments], capture_output=True, text=True,
                              timeout=timeout, cwd=tmp_path, check=False, **more)

    return run
