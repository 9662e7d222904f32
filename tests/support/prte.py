"""Where Open MPI's launcher keeps its files in tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLES = ("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_orte_tmpdir_base")  # of Open MPI 5 and 4


@pytest.fixture(autouse=True)
def launchers_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for each test. In /tmp the launcher names its own by process number alone and does not start where a
    killed one with the same number has left it ("The PMIx server's listener thread failed to start")."""
    folder = Path(tempfile.mkdtemp(prefix="prte-", dir="/tmp"))  # not pytest's: paths of sockets are short
    for name in VARIABLES:
        monkeypatch.setenv(name, str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a launcher that was killed may still be at its own
