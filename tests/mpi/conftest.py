"""What the tests of the interposer share: compiled programs, one folder per binary interface."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mpis  # noqa: E402
from prte import launchers_folder  # noqa: E402, F401


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder with the preload and the plugins. A missing build is a failure, not a skip."""
    for name in ("libtutti-preload.so", "libtutti-mpi-mpich.so", "libtutti-mpi-abi.so", "libtutti-mpi-openmpi.so"):
        assert (mpis.LIBRARIES / name).exists(), f"{mpis.LIBRARIES / name} is not built"
    return mpis.LIBRARIES


@pytest.fixture(scope="session")
def gpu_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """gpu_library("cuda", "hip" or "level-zero"): what stands in for that GPU's library (tests/mpi/standin).
    "other": the same under a name that says nothing."""
    folder = tmp_path_factory.mktemp("standin")

    def compile_once(kind: str) -> str:
        name, options = {"cuda": ("libcuda.so.1", []), "other": ("libother.so", []),
                         "hip": ("libamdhip64.so.6", ["-DSTANDIN_HIP"]),
                         "level-zero": ("libze_loader.so.1", ["-DSTANDIN_LEVEL_ZERO"])}[kind]
        output = folder / name
        if not output.exists():
            command = ["cc", "-shared", "-fPIC", "-O2", f"-Wl,-soname,{name}", *options, "-o", str(output),
                       str(mpis.PROGRAMS.parent / "standin" / "gpu.c"), "-pthread"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return str(output)

    return compile_once


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[mpis.Mpi, str], str]:
    """program(mpi, name): the path of tests/mpi/programs/name, compiled by that MPI's compiler."""
    folder = tmp_path_factory.mktemp("programs")
    one_at_a_time = threading.Lock()  # threads of a test may ask for the same one

    def compile_once(mpi: mpis.Mpi, name: str) -> str:
        owner = mpis.ANY[mpi.programs_of]
        for needed in (mpi, owner):
            if reason := needed.missing():
                pytest.skip(f"{mpi.name}: {reason}")
        source = mpis.PROGRAMS / name
        output = folder / f"{owner.name}-{source.stem}-{source.suffix[1:]}"
        with one_at_a_time:
            if not output.exists():
                compile_by(owner, mpi, source, output)
        return str(output)

    def compile_by(owner: mpis.Mpi, mpi: mpis.Mpi, source: Path, output: Path) -> None:
        compiler = {".c": owner.compiler, ".f90": owner.fortran, ".F90": owner.fortran}[source.suffix]
        if compiler is None:
            pytest.skip(f"{mpi.name}: no Fortran compiler of this MPI")
        command = [str(compiler), "-O1", "-o", str(output), str(source), "-pthread", "-lm"]
        if source.stem.endswith("mpif"):  # mpif.h has no interfaces, and gfortran compares the calls
            command.append("-fallow-argument-mismatch")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"

    return compile_once
