"""Processes of another user on the same node: they are not counted as ranks, and do not keep a job from starting."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import mpis
import pytest
from test_preload import look_slowly

pytestmark = [pytest.mark.mpi,
              pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")]
STRANGER = mpis.PROGRAMS / "stranger.py"


@contextmanager
def stranger() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-", "60"], stdin=STRANGER.open(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield
        assert process.poll() is None, "it has not gone on to the end"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_they_are_no_ranks(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    path = program(description, "requests.c")
    served = ["env", f"LD_PRELOAD={mpis.preload()}"]
    with stranger():
        result = mpis.run([*description.launcher, "-n", "1", *served, path, ":", "-n", "1", path],
                          description.environment, limit_s=60)
    assert result.status == 0, result.text
    assert result.text.count("run without tutti") == 1, result.text


@pytest.mark.parametrize("mpi", ["mpich", "impi"])
def test_who_cannot_be_reached_for_them_is_not_missing(program, libraries, mpi, tmp_path):
    """A rank looks at another whose queue they have filled; a third one runs without tutti indeed."""
    with stranger():
        result = look_slowly(program, tmp_path, mpi, ["LATE_RANK=1", "LATE_S=2"], True)
    said = [line for line in result.text.splitlines() if "run without tutti" in line]
    assert said and all("1 of the 3 ranks" in line for line in said), result.text


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_they_do_not_stop_the_start(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    with stranger():
        result = mpis.start(description, 2, [program(description, "requests.c")], True, {"TUTTI_REPORT": "1"}, limit_s=60)
    assert result.status == 0, result.text
    assert "run without tutti" not in result.text
    assert any("MPI" not in how for _, how in result.rows()), result.text
