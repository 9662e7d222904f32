"""Processes that end otherwise than by MPI_Finalize: children of a rank, and ranks that call exit()."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import mpis
import pytest

ALL = ["mpich", "openmpi", "impi"]
SETTINGS = [{}, {"TUTTI_P2P": "1"}]


@pytest.mark.mpi
@pytest.mark.parametrize("settings", SETTINGS, ids=["collectives", "messages"])
@pytest.mark.parametrize("mpi", ALL)
def test_children_are_no_ranks(program, libraries, mpi, settings):
    """Whatever ends them, they end as without tutti, and the job goes on."""
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 2, [program(description, "ends.c"), "children"], True,
                        {**settings, "TUTTI_REPORT": "1"})
    assert result.status == 0, result.text
    assert "ends: passed (0 failures)" in result.text
    assert any(call == "MPI_Iallreduce" and not how.startswith("MPI (") for call, how in result.rows()), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("apart", [False, True], ids=["node", "nodes"])
@pytest.mark.parametrize("how", ["thread", "exit"])
@pytest.mark.parametrize("mpi", ALL)
def test_exit_without_finalize(program, libraries, mpi, how, apart):
    """A rank's exit() is an exit, also under the feet of its other threads: none dies by a signal of its own making. (What
    the launchers make of a rank that has not called MPI_Finalize differs, also from run to run: Hydra may kill the others.)"""
    description = mpis.MPIS[mpi]
    name = 'TUTTI_NODE=n${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; export TUTTI_NODE;' if apart else ""
    command = ["sh", "-c", f'{name} "$0" "$1"; end=$?; echo "ended with $end"; exit $end', program(description, "ends.c"), how]
    result = mpis.start(description, 2, command, True, {}, 60)
    crashes = {128 + number for number in (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)}
    ends = {int(number) for number in re.findall(r"ended with (\d+)", result.text)}
    assert result.status is not None, result.text
    # Where a collective's error ends a program, because its peer has gone, that is an MPI_Abort of the MPI's own.
    assert not crashes & {*ends, result.status}, result.text
    assert "FAILED" not in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("apart", [False, True], ids=["node", "nodes"])
@pytest.mark.parametrize("mpi", ALL)
def test_finalize_in_a_handler_of_exit(program, libraries, mpi, apart):
    """A handler that was registered before MPI_Init runs after tutti's own. (And after MPICH's own, which lets go of the
    launcher: then Hydra now and then kills who ends last, with MPICH alone too, and gives signal 9 as the job's status.)"""
    description = mpis.MPIS[mpi]
    name = 'TUTTI_NODE=n${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; export TUTTI_NODE;' if apart else ""
    command = ["sh", "-c", f'{name} exec "$0" late', program(description, "ends.c")]
    result = mpis.start(description, 2, command, True, {}, 60)
    right = {0} if mpi == "openmpi" else {0, signal.SIGKILL}
    assert result.status in right, f"{result.status}: {result.text}"
    assert "ends: passed (0 failures)" in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{"TUTTI_DCP": "1"}, {"TUTTI_DCP": "1", "TUTTI_DCP_FROM_JOB": "1"}, {"TUTTI_REPORT": "1"},
                                      {"TUTTI_P2P": "1"}],
                         ids=["dedicated", "from job", "report", "messages"])
@pytest.mark.parametrize("mpi", ALL)
def test_who_waits_for_finalize_sleeps(program, libraries, mpi, settings):
    """The last rank may still need the processors: to check its result, to write it."""
    description = mpis.MPIS[mpi]
    processes = 4 if "TUTTI_DCP_FROM_JOB" in settings else 3
    result = mpis.start(description, processes, [program(description, "ends.c"), "apart", "0"], True, settings, 60)
    assert result.status == 0, result.text
    assert "FAILED" not in result.text, result.text
    assert len(re.findall("was at work for", result.text)) == 2, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_the_reports_time_ends_when_rank_0_finalizes(program, libraries, mpi, tmp_path):
    """Not when the last one has come, for whom none of its calls waits."""
    description = mpis.MPIS[mpi]
    report = tmp_path / "report.json"
    begin = time.monotonic()
    result = mpis.start(description, 3, [program(description, "ends.c"), "apart", "2"], True, {"TUTTI_REPORT_JSON": str(report)}, 60)
    whole = time.monotonic() - begin
    assert result.status == 0, result.text
    seconds = json.loads(report.read_text())["seconds"]
    assert 0 < seconds < whole - 1.9, result.text


@pytest.mark.parametrize("library", ["libtutti-mpi-mpich.so", "libtutti-mpi-abi.so", "libtutti-mpi-openmpi.so"])
def test_nothing_is_destroyed_at_exit(libraries, library):
    """The C library is not asked to call anything at exit, nor on a thread's end, and the plugin cannot be unloaded."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(libraries / library)], check=True, capture_output=True,
                             text=True).stdout
    assert not re.findall(r"\b(?:__cxa_atexit|__cxa_thread_atexit\w*|atexit|on_exit)\b", symbols), symbols
    flags = subprocess.run(["readelf", "-d", str(libraries / library)], check=True, capture_output=True, text=True).stdout
    assert "NODELETE" in flags


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["openmpi", "openmpi-debian"])
def test_a_killed_launcher_is_in_no_later_ones_way(launchers_folder, mpi):
    """What it leaves behind stays in the folder of its test: a later one may have its number."""
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    before = set(Path("/tmp").glob("ompi.*"))
    result = mpis.run([*description.launcher, "-n", "1", "sh", "-c", "echo $PPID; exec sleep 60"], {}, 3)
    launcher = re.search(r"\d+", result.text)
    assert result.status is None and launcher, result.text
    left = [*launchers_folder.glob(f"ompi.*{launcher[0]}"), *launchers_folder.glob(f"ompi.*/pid.{launcher[0]}")]
    assert left
    assert not [path for path in set(Path("/tmp").glob("ompi.*")) - before if launcher[0] in path.name]
