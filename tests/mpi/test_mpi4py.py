"""mpi4py's own test suite, from its source distribution, has the same outcomes with tutti and without."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import mpis
import pytest

VERSION = "4.1.2"
# Left out: what starts other jobs, for which there is no name server here. Intel MPI already crashes when these modules
# are loaded (MPI_Open_port).
LEFT_OUT = ["test_spawn.py", "test_dynproc.py"]
OUTCOME = re.compile(r"^(test\w+ \([\w.]+\)).*\.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.MULTILINE)


@pytest.fixture(scope="session")
def suite(tmp_path_factory) -> Path:
    """The tests of the source distribution that TUTTI_TEST_MPI4PY names, or that is fetched with pip."""
    folder = tmp_path_factory.mktemp("mpi4py")
    unpacked = Path(os.environ.get("TUTTI_TEST_MPI4PY") or fetch(folder))
    shutil.copytree(unpacked / "test", folder / "test")
    for name in LEFT_OUT:
        (folder / "test" / name).unlink()
    return folder / "test" / "main.py"


def fetch(folder: Path) -> Path:
    """Where the source distribution has been unpacked."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", "mpi4py",
               "--no-deps", "-d", str(folder), f"mpi4py=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "MPI4PY_BUILD_BACKEND": "setuptools"})
    if done.returncode != 0:
        pytest.skip(f"mpi4py's source distribution cannot be fetched: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    return folder / f"mpi4py-{VERSION}"


# Each rank's report into a file of its own: on one terminal their lines run into each other.
APART = 'exec "$@" 2> "$0.${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"'


def outcomes(mpi: mpis.Mpi, suite: Path, ranks: int, folder: Path, settings: dict[str, str] | None,
             only: tuple[str, ...] = ()) -> tuple[int | None, list[list[tuple[str, str]]]]:
    """The exit status, and the outcomes of all tests, or those of some modules, a list for each process that ran any.
    `settings`: tutti's; None: without it."""
    report = folder / ("native" if settings is None else "served")
    command = ["sh", "-c", APART, str(report), str(mpi.python), str(suite), "-v", "--no-builddir"]
    command += [word for name in only for word in ("-i", name)]
    result = mpis.start(mpi, ranks, command, settings is not None, settings, limit_s=1200)
    found = [sorted(OUTCOME.findall(path.read_text(errors="replace"))) for path in folder.glob(f"{report.name}.*")]
    return result.status, sorted(tests for tests in found if tests)


def same_outcomes(name: str, suite: Path, ranks: int, folder: Path, settings: dict[str, str], more: int = 0,
                  only: tuple[str, ...] = ()) -> None:
    """With tutti (and so many processes more, which the program does not see) every rank has the outcomes that it has
    without."""
    mpi = mpis.MPIS[name]
    if reason := mpi.missing():
        pytest.skip(reason)
    native_status, native = outcomes(mpi, suite, ranks, folder, None, only)
    status, served = outcomes(mpi, suite, ranks + more, folder, settings, only)
    assert len(native) == ranks and all(len(tests) > 100 for tests in native)
    for mine, own in zip(served, native, strict=True):
        assert mine == own
    assert status == native_status


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(2600)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_same_outcomes(libraries, suite, tmp_path, mpi, ranks):
    same_outcomes(mpi, suite, ranks, tmp_path, {})


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_nothing_is_found_in_it(libraries, suite, tmp_path, mpi):
    """With the checks of calls and buffers, and messages that are tutti's."""
    settings = {"TUTTI_CHECK": "calls", "TUTTI_P2P": "1", "TUTTI_STALL": "0"}
    _, served = outcomes(mpis.MPIS[mpi], suite, 2, tmp_path, settings, ("test_cco", "test_p2p", "test_request"))
    assert len(served) == 2 and all(len(tests) > 100 for tests in served)
    assert not [line for path in tmp_path.glob("served.*") for line in path.read_text(errors="replace").splitlines()
                if "tutti:" in line]
