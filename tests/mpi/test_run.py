"""`tutti run` around real programs: what it says of them."""

from __future__ import annotations

import re
import sys

import mpis
import pytest


def tutti_run(mpi: mpis.Mpi, ranks: int, command: list[str], *options: str) -> mpis.Result:
    variables = [f"{name}={value}" for name, value in mpi.environment.items()]
    env = ["env", *variables] if variables else []
    return mpis.run([sys.executable, "-m", "tutti", "run", *options, *mpi.launcher, "-n", str(ranks), *env, *command],
                    mpi.environment, 120)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_sessions_without_mpi_init(program, mpi):
    """They have an MPI, which keeps their communicators: one line says that."""
    description = mpis.MPIS[mpi]
    result = tutti_run(description, 2, [program(description, "sessions.c")])
    assert result.status == 0, result.text
    assert "sessions: passed (0 failures)" in result.text
    said = [line for line in result.text.splitlines() if line.startswith("tutti:")]
    assert len(said) == 1, result.text
    assert "MPI sessions" in said[0]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_what_was_taken_over_is_said(program, mpi):
    description = mpis.MPIS[mpi]
    result = tutti_run(description, 2, [program(description, "short.c")])
    assert result.status == 0, result.text
    said = [line for line in result.text.splitlines() if line.startswith("tutti:")]
    assert len(said) == 1, result.text
    assert re.search("took over the collectives(?: and messages)? of 2 ranks", said[0])
