"""Dedicated processors that are taken from the job's own processes: the program sees a smaller world, everywhere, and
gives the same results; nobody stays behind, however the program ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import mpis
import pytest
from test_dcp import BLOCKING_TOO, OFFLOADED, ending, with_the_papers_interface  # noqa: F401
from test_mpi4py import same_outcomes, suite  # noqa: F401

ALL = list(mpis.MPIS)


def start(mpi: mpis.Mpi, processes: int, command: list[str], dcp: str = "1", limit_s: float = 120) -> mpis.Result:
    settings = {"TUTTI_REPORT": "1", "TUTTI_DCP": dcp, "TUTTI_DCP_FROM_JOB": "1", "TUTTI_ALG": BLOCKING_TOO}
    return mpis.start(mpi, processes, command, True, settings, limit_s=limit_s)


def check(program, mpi_name: str, processes: int, source: str, arguments: list[str], dcp: str = "1") -> mpis.Result:
    """`processes` with the dedicated ones."""
    mpi = mpis.ANY[mpi_name]
    result = start(mpi, processes, [program(mpi, source), *arguments], dcp)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text, result.text[-3000:]
    return result


def offloaded(result: mpis.Result) -> set[str]:
    return {call for call, algorithm in result.rows() if algorithm == "dcp"}


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,processes,dcp,apps", [
    *((mpi, 3, "1", 2) for mpi in ("mpich-debian", *ALL)),
    ("mpich", 2, "1", 1), ("openmpi", 2, "1", 1), ("openmpi", 4, "1:2", 2), ("mpich-abi", 5, "1:4", 4), ("impi", 5, "2:3", 3)])
def test_the_world_is_the_programs(program, libraries, mpi, processes, dcp, apps):
    check(program, mpi, processes, "world.c", [str(apps)], dcp)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich-debian", "openmpi-debian"])
def test_the_world_of_fortran(program, libraries, mpi):
    check(program, mpi, 3, "world_mpif.f90", ["2"])


@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["mpif", "mpi", "f08"])
@pytest.mark.parametrize("mpi", ["mpich-debian", "openmpi-debian"])
def test_fortran(program, libraries, mpi, kind):
    result = check(program, mpi, 3, f"fortran_{kind}.f90", [])
    assert {"MPI_Allreduce", "MPI_Bcast", "MPI_Iallreduce"} <= offloaded(result)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,processes,dcp", [
    ("mpich", 3, "1"), ("openmpi", 5, "1:4"), ("openmpi", 5, "2:3"), ("impi", 3, "1")])
def test_collectives(program, libraries, mpi, processes, dcp):
    result = check(program, mpi, processes, "collectives.c", ["5003", "served"], dcp)
    for name in OFFLOADED:
        assert {f"MPI_{name}", f"MPI_I{name.lower()}"} <= offloaded(result), result.text[-3000:]


ARGUMENTS = {"communicators.c": "300"}
PROGRAMS = ["requests.c", "deadlock.c", "datatypes.c", "reductions.c", "communicators.c", "threads.c", "window.c",
            "progress.c"]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,source", [
    *(("openmpi", source) for source in PROGRAMS),
    *((mpi, source) for mpi in ("mpich", "impi") for source in ("requests.c", "communicators.c", "threads.c"))])
def test_program(program, libraries, mpi, source):
    check(program, mpi, 3, source, [ARGUMENTS.get(source, "0"), "served"])


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["openmpi", "impi"])
def test_errors(program, libraries, mpi):
    check(program, mpi, 3, "errors.c", ["0", "served"])


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich"])
def test_the_papers_interface(libraries, tmp_path, mpi):
    description = mpis.MPIS[mpi]
    result = start(description, 4, [with_the_papers_interface(description, "dcp.c", tmp_path / "dcp")])
    assert result.status == 0 and "100 sums, all right" in result.text, result.text
    processor = re.search(r"dedicated processor 0: 3 ranks, (\d+) requests, (\d+) collectives", result.text)
    assert processor and int(processor[2]) == 101 and int(processor[1]) >= 306, result.text


# ---- what cannot be ------------------------------------------------------------------------------


def one_line(result: mpis.Result, text: str) -> None:
    lines = [line for line in result.text.splitlines() if text in line]
    assert len(lines) == 1 and lines[0].startswith("tutti: "), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_no_process_is_left_for_the_program(program, libraries, mpi):
    """It runs on its MPI with all of them."""
    description = mpis.MPIS[mpi]
    result = start(description, 1, [program(description, "world.c"), "1"])
    assert result.status == 0, result.text
    one_line(result, "cannot be taken from a job of one process")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_ratio_that_does_not_divide_is_said(program, libraries, mpi):
    result = check(program, mpi, 4, "world.c", ["3"], "1:4")
    one_line(result, "does not divide 4 processes evenly: 3 for the program, 1 dedicated")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])  # Debian's Open MPI 4.1 has none
def test_partitioned_communication(program, libraries, mpi):
    check(program, mpi, 5, "partitioned.c", [])


@pytest.mark.mpi
def test_it_needs_its_library(program, libraries):
    mpi = mpis.MPIS["openmpi"]
    result = mpis.run([*mpi.launcher, "-n", "2", "-x", f"LD_PRELOAD={mpis.preload()}", "-x", "TUTTI_DCP=1", "-x",
                       "TUTTI_DCP_FROM_JOB=1", program(mpi, "world.c"), "2"], {})
    assert result.status == 0, result.text
    one_line(result, "use tutti run --dcp-from-job")


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(2600)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_mpi4py(libraries, suite, tmp_path, mpi):  # noqa: F811
    same_outcomes(mpi, suite, 2, tmp_path, {"TUTTI_DCP": "1", "TUTTI_DCP_FROM_JOB": "1"}, more=1)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_a_processor_that_cannot_start_is_said_to_all(program, libraries, mpi):
    """Only the dedicated one reads its list of cpus: the others must not wait for it."""
    description = mpis.MPIS[mpi]
    settings = {"TUTTI_DCP": "1", "TUTTI_DCP_FROM_JOB": "1", "TUTTI_DCP_CPUS": "4000"}
    result = mpis.start(description, 3, [program(description, "collectives.c"), "17", "native"], True, settings, limit_s=60)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "cannot start" in result.text and "TUTTI_DCP_CPUS" in result.text, result.text[-3000:]


@pytest.mark.mpi
def test_it_needs_a_number(program, libraries):
    mpi = mpis.MPIS["openmpi"]
    result = start(mpi, 2, [program(mpi, "world.c"), "2"], "")
    assert result.status == 0, result.text
    one_line(result, "TUTTI_DCP_FROM_JOB needs TUTTI_DCP")


# ---- ends ----------------------------------------------------------------------------------------


def processes_of(binary: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.readlink(folder / "exe") == binary:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def all_gone(binary: str) -> None:
    end = time.monotonic() + 10
    while (left := processes_of(binary)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left, f"processes {left} are still there"


@pytest.mark.mpi
@pytest.mark.parametrize("how", ["abort", "exit", "kill"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_the_job_ends_with_the_program(ending, libraries, mpi, how):  # noqa: F811
    description = mpis.MPIS[mpi]
    binary = ending(description)
    result = start(description, 4, [binary, how], limit_s=60)
    assert result.status not in (None, 0), result.text
    all_gone(binary)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_a_dcp_that_is_killed_ends_the_job(ending, libraries, mpi):  # noqa: F811
    """It is a process of the job, so the launcher says so, and the program's processes where they live long enough."""
    description = mpis.MPIS[mpi]
    binary = ending(description)
    variables = [f"{name}={value}" for name, value in {**description.environment, "TUTTI_DCP": "1",
                 "TUTTI_DCP_FROM_JOB": "1", "LD_PRELOAD": f"{mpis.split(description)}:{mpis.preload()}"}.items()]
    job = subprocess.Popen([*description.launcher, "-n", "3", "env", *variables, binary, "on"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                           env={**os.environ, **description.environment})
    try:
        # The program says when it is past MPI_Init, and the last of its processes never is.
        while (line := job.stdout.readline()) and "running" not in line:
            pass
        assert line, "the job has ended"
        os.kill(last_rank(processes_of(binary)), signal.SIGKILL)
        text, _ = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    assert job.returncode != 0, text
    all_gone(binary)


def last_rank(pids: list[int]) -> int:
    """The process with the highest rank, which is the dedicated one."""
    def rank(pid: int) -> int:
        text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
        return int(re.search(r"(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)", text)[1])
    return max(pids, key=rank)


# ---- the command line ----------------------------------------------------------------------------


@pytest.mark.mpi
def test_tutti_run(program, libraries):
    """The command that the documentation gives."""
    mpi = mpis.MPIS["mpich"]
    command = [sys.executable, "-m", "tutti", "run", "--dcp", "1:4", "--dcp-from-job", mpi.launcher[0], "-n", "5",
               program(mpi, "world.c"), "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "passed (0 failures)" in done.stdout, done.stdout + done.stderr
    assert "took over the collectives of 4 ranks" in done.stderr
