"""mpi4py's own test suite, from its source distribution, has the same outcomes with tutti and without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import mpis
import pytest

VERSION = "4.1.2"
# Left out: what starts other jobs, for which there is no name server here.
LEFT_OUT = ["spawn", "dynproc"]
OUTCOME = re.compile(r"^(test\w+ \([\w.]+\)).*\.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.MULTILINE)


@pytest.fixture(scope="session")
def suite(tmp_path_factory) -> Path:
    """The unpacked source distribution: TUTTI_TEST_MPI4PY, or fetched with pip."""
    if given := os.environ.get("TUTTI_TEST_MPI4PY"):
        return Path(given)
    folder = tmp_path_factory.mktemp("mpi4py")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", "mpi4py",
               "--no-deps", "-d", str(folder), f"mpi4py=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "MPI4PY_BUILD_BACKEND": "setuptools"})
    if done.returncode != 0:
        pytest.skip(f"mpi4py's source distribution cannot be fetched: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    return folder / f"mpi4py-{VERSION}"


def outcomes(mpi: mpis.Mpi, suite: Path, ranks: int, tutti: bool) -> tuple[mpis.Result, list[tuple[str, str]]]:
    command = [str(mpi.python), str(suite / "test" / "main.py"), "-v", "--no-builddir"]
    command += [word for name in LEFT_OUT for word in ("-x", name)]
    result = mpis.start(mpi, ranks, command, tutti, limit_s=1200)
    return result, sorted(OUTCOME.findall(result.text))


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(2600)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_same_outcomes(libraries, suite, mpi, ranks):
    if ranks == 1 and "TUTTI_TEST_LONG" not in os.environ:
        pytest.skip("takes long; make test-mpi4py runs it")
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    native, native_outcomes = outcomes(description, suite, ranks, False)
    served, served_outcomes = outcomes(description, suite, ranks, True)
    assert len(native_outcomes) > 500
    assert served.status == native.status
    counts = [sorted(re.findall(r"^(?:Ran \d+ tests|OK.*|FAILED.*)", run.text, re.MULTILINE)) for run in (native, served)]
    assert counts[1] == counts[0]
    if ranks == 1:  # with more, the lines of the ranks run into each other
        assert served_outcomes == native_outcomes
