"""Programs that were compiled without tutti, with dedicated collective processors beside them: the same results, and
nobody stays behind, however the program ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import mpis
import pytest
from test_mpi4py import same_outcomes, suite  # noqa: F401
from test_nodes import on_nodes
from test_run import tutti_run
from tutti.launch import automatic
from tutti.launch.dcp import Measured

ALL = list(mpis.MPIS)
OFFLOADED = {"Bcast", "Reduce", "Allreduce", "Allgather", "Alltoall", "Barrier"}
BLOCKING_TOO = ",".join(f"{name.lower()}=dcp" for name in OFFLOADED)  # by themselves they go another way
EXAMPLES = mpis.ROOT / "examples" / "dcp"


def helpers() -> list[int]:
    """The dedicated processors that run now, of whatever job."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().strip() == "tutti-dcp":
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found.append(int(folder.name))
        except OSError:
            continue
    return found


def helpers_of(libraries: Path, other_than: set[int]) -> list[int]:
    """Those of this build (other worktrees may have jobs of their own) that are new, and were not started by a
    test that runs beside this one."""
    worker = "PYTEST_XDIST_WORKER=" + os.environ.get("PYTEST_XDIST_WORKER", "")
    mine = []
    for pid in set(helpers()) - other_than:
        try:
            started_here = worker in Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            if (started_here or worker.endswith("=")) and Path(f"/proc/{pid}/exe").resolve().parent == libraries.resolve():
                mine.append(pid)
        except OSError:
            continue
    return mine


@pytest.fixture(autouse=True)
def nobody_stays(libraries):
    """Each test leaves no dedicated processor of its own behind."""
    before = set(helpers())
    yield
    end = time.monotonic() + 5
    while (left := helpers_of(libraries, before)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left, f"dedicated processors {left} are still there"


def check(program, mpi_name: str, ranks: int, source: str, arguments: list[str], dcp: str,
          placement: str | None = None) -> mpis.Result:
    mpi = mpis.ANY[mpi_name]
    settings = {"TUTTI_REPORT": "1", "TUTTI_DCP": dcp, "TUTTI_ALG": BLOCKING_TOO}
    command = [program(mpi, source), *arguments, "served"]
    if placement is not None:
        command = on_nodes(placement, command)
        settings["TUTTI_NET"] = "on"
    result = mpis.start(mpi, ranks, command, True, settings)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    return result


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,dcp", [(2, "1"), (4, "1:2"), (3, "3")])
@pytest.mark.parametrize("mpi", ALL)
def test_collectives(program, libraries, mpi, ranks, dcp):
    all_offloaded(check(program, mpi, ranks, "collectives.c", ["20011"], dcp))


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("placement,ranks,dcp", [("apart", 2, "1"), ("pairs", 4, "1"), ("apart", 3, "1:3")])
@pytest.mark.parametrize("mpi", ALL)
def test_collectives_over_nodes(program, libraries, mpi, placement, ranks, dcp):
    """Helpers open the libfabric that their program's MPI has brought, or they could not talk to it."""
    all_offloaded(check(program, mpi, ranks, "collectives.c", ["1009"], dcp, placement))


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_who_waits_does_not_wait_for_helpers(program, libraries, mpi):
    """Blocking calls go the members' own way, at the same time as others go through the helpers."""
    result = mpis.start(mpis.MPIS[mpi], 3, [program(mpis.MPIS[mpi], "collectives.c"), "5003", "served"], True,
                        {"TUTTI_REPORT": "1", "TUTTI_DCP": "1", "TUTTI_CHOICE": "static"})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    offloaded = {call for call, algorithm in result.rows() if algorithm == "dcp"}
    assert not {f"MPI_{name}" for name in OFFLOADED} & offloaded, offloaded
    assert {f"MPI_I{name.lower()}" for name in OFFLOADED} <= offloaded, offloaded


@pytest.mark.mpi
@pytest.mark.parametrize("waits,decided,helpers", [(0.6, "--dcp 1:2:", 2), (0.0, "no dedicated processors:", 0)],
                         ids=["pays", "does not"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_auto_takes_as_many_as_it_has_decided(program, libraries, tmp_path, mpi, waits, decided, helpers):
    """By costs that are given, so that whatever machine this is decides alike."""
    path = tmp_path / "app.dcp"
    mix = automatic.Mix(ranks=4, whole=0.4 + waits, calls=10_000, most_bytes=8, starts=0.1, waits=waits, other=0.0)
    costs = [automatic.Cost(8, Measured("1:2", 2, 4, 10.0, 1.0)), automatic.Cost(8, Measured("1:4", 1, 4, 90.0, 1.0))]
    automatic.save(path, mix, costs if waits else costs[1:])
    result = tutti_run(mpis.MPIS[mpi], 4, [program(mpis.MPIS[mpi], "collectives.c"), "5003", "served"], "--report",
                       "--dcp", f"auto:{path}")
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    assert f"--dcp auto: {decided}" in result.text, result.text[-3000:]
    assert len(set(re.findall(r"dedicated processor (\d+): 2 ranks", result.text))) == helpers, result.text[-3000:]
    offloaded = {call for call, algorithm in result.rows() if algorithm == "dcp"}
    assert {f"MPI_I{name.lower()}" for name in OFFLOADED} <= offloaded if helpers else not offloaded, offloaded


def all_offloaded(result: mpis.Result) -> None:
    offloaded = {call for call, algorithm in result.rows() if algorithm == "dcp"}
    for name in OFFLOADED:
        assert f"MPI_{name}" in offloaded, result.text[-3000:]
        assert f"MPI_I{name.lower()}" in offloaded


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source,ranks,arguments", [
    ("requests.c", 3, []), ("deadlock.c", 2, []), ("datatypes.c", 2, []), ("reductions.c", 3, []),
    ("communicators.c", 2, ["2500"]), ("communicators.c", 4, ["20"]), ("threads.c", 2, []), ("persistent.c", 3, ["5"])])
@pytest.mark.parametrize("mpi", ALL)
def test_program(program, libraries, mpi, source, ranks, arguments):
    check(program, mpi, ranks, source, arguments or ["0"], "1")


@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["mpif", "mpi", "f08"])
@pytest.mark.parametrize("mpi", list(mpis.ANY))
def test_fortran(program, libraries, mpi, kind):
    result = check(program, mpi, 2, f"fortran_{kind}.f90", [], "1")
    assert {"MPI_Allreduce", "MPI_Bcast", "MPI_Iallreduce"} <= {
        call for call, algorithm in result.rows() if algorithm == "dcp"}


def with_the_papers_interface(mpi: mpis.Mpi, source: str, binary: Path) -> str:
    """A program of examples/dcp, compiled for it and linked with libtutti-dcp."""
    owner = mpis.ANY[mpi.programs_of]
    if reason := mpi.missing() or owner.missing():
        pytest.skip(reason)
    compiler = owner.compiler if source.endswith(".c") else owner.fortran
    if compiler is None:
        pytest.skip(f"{mpi.name}: no Fortran compiler of this MPI")
    module = [str(mpis.ROOT / "include" / "tutti" / "dcp_f08.f90")] if "f08" in source else []
    done = subprocess.run([str(compiler), "-I", str(mpis.ROOT / "include"), "-o", str(binary), *module, str(EXAMPLES / source),
                           str(mpis.LIBRARIES / "libtutti-dcp.so"), f"-Wl,-rpath,{mpis.LIBRARIES}"],
                          capture_output=True, text=True, timeout=120, cwd=binary.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(binary)


@pytest.mark.mpi
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("source,sums", [("dcp.f90", 100), ("dcp_f08.f90", 200)])
@pytest.mark.parametrize("mpi", ["mpich-debian", "openmpi-debian"])
def test_the_papers_interface_in_fortran(libraries, tmp_path, mpi, source, sums, tutti):
    description = mpis.ANY[mpi]
    binary = with_the_papers_interface(description, source, tmp_path / "sums")
    settings = {"TUTTI_REPORT": "1", "TUTTI_DCP": "1"} if tutti else {}
    result = mpis.start(description, 3, [binary], tutti, settings)
    assert result.status == 0 and f"{sums} sums, all right" in result.text, result.text
    if tutti:
        assert result.rows()["MPI_Iallreduce", "dcp"] == 3 * sums


@pytest.mark.mpi
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("mpi", ALL)
def test_the_papers_interface(libraries, tmp_path, mpi, tutti):
    description = mpis.MPIS[mpi]
    binary = with_the_papers_interface(description, "dcp.c", tmp_path / "dcp")
    settings = {"TUTTI_REPORT": "1", "TUTTI_DCP": "1"} if tutti else {}
    result = mpis.start(description, 3, [binary], tutti, settings)
    assert result.status == 0 and "100 sums, all right" in result.text, result.text
    if tutti:
        assert result.rows()["MPI_Iallreduce", "dcp"] == 300
        processor = re.search(r"dedicated processor 0: 3 ranks, (\d+) requests, (\d+) collectives, at most \d+ at once; "
                              r"woken (\d+) times", result.text)
        # A request of each rank for each sum, and one to open the world.
        assert processor and int(processor[2]) == 100 and int(processor[1]) >= 303, result.text


@pytest.mark.mpi
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["blocking", "overlapped"])
@pytest.mark.parametrize("mpi", list(mpis.ANY))
def test_barotropic(libraries, tmp_path, mpi, form):
    """The solver of the paper's application, verified against a serial solve."""
    description = mpis.ANY[mpi]
    owner = mpis.ANY[description.programs_of]
    if reason := description.missing() or owner.missing():
        pytest.skip(reason)
    if owner.fortran is None:
        pytest.skip(f"{mpi}: no Fortran compiler of this MPI")
    source = mpis.ROOT / "examples" / "barotropic" / "barotropic.F90"
    subprocess.run([str(owner.fortran), "-O2", "-o", "barotropic", str(source)], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    result = mpis.start(description, 3, [str(tmp_path / "barotropic"), form, "100"], True,
                        {"TUTTI_REPORT": "1", "TUTTI_DCP": "1", "TUTTI_ALG": BLOCKING_TOO})
    assert result.status == 0 and "verified" in result.text, result.text
    call = "MPI_Iallreduce" if form == "overlapped" else "MPI_Allreduce"
    assert result.rows()[call, "dcp"] > 300


@pytest.mark.mpi
@pytest.mark.parametrize("text", ["0", "1:", "x", "4:1:1", "-1"])
def test_a_ratio_that_is_none_is_one_line(program, libraries, text):
    mpi = mpis.MPIS["openmpi"]
    result = mpis.start(mpi, 2, [program(mpi, "latency.c"), "1000"], True, {"TUTTI_DCP": text})
    lines = [line for line in result.text.splitlines() if "TUTTI_DCP" in line]
    assert len(lines) == 1 and "expected" in lines[0], result.text


# ---- ends ----------------------------------------------------------------------------------------


ENDING = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  double in = 1, out;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 1000; ++i) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    puts("running");
    fflush(stdout);
  }
  if (strcmp(argv[1], "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
  if (strcmp(argv[1], "exit") == 0 && rank == 1) _exit(4);
  if (strcmp(argv[1], "kill") == 0 && rank == 1) raise(9);
  for (int i = 0; i < 1000000000; ++i) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
}
"""


@pytest.fixture(scope="module")
def ending(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ending")
    (folder / "ending.c").write_text(ENDING.replace("<string.h>", "<string.h>\n#include <signal.h>"))

    def compiled(mpi: mpis.Mpi) -> str:
        owner = mpis.ANY[mpi.programs_of]
        if reason := mpi.missing() or owner.missing():
            pytest.skip(reason)
        binary = folder / owner.name
        if not binary.exists():
            subprocess.run([str(owner.compiler), "-o", str(binary), str(folder / "ending.c")], check=True,
                           capture_output=True, timeout=120)
        return str(binary)

    return compiled


@pytest.mark.mpi
@pytest.mark.parametrize("how", ["abort", "exit", "kill"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_the_job_ends_with_the_program(ending, libraries, mpi, how):
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 3, [ending(description), how], True, {"TUTTI_DCP": "1"}, limit_s=60)
    assert result.status not in (None, 0), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_a_dcp_that_is_killed_is_reported(ending, libraries, mpi):
    description = mpis.MPIS[mpi]
    before = set(helpers())
    variables = [f"{name}={value}" for name, value in
                 {**description.environment, "TUTTI_DCP": "1", "TUTTI_ALG": BLOCKING_TOO,
                  "LD_PRELOAD": str(mpis.preload())}.items()]
    job = subprocess.Popen([*description.launcher, "-n", "3", "env", *variables, ending(description), "on"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                           env={**os.environ, **description.environment})
    try:
        end = time.monotonic() + 30
        while not helpers_of(libraries, before) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1)  # it starts as a child of the program, which leaves a child of its own and ends
        found = helpers_of(libraries, before)
        assert len(found) == 1
        os.kill(found[0], signal.SIGKILL)
        text, _ = job.communicate(timeout=30)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    assert job.returncode != 0
    assert "dedicated processor 0 died during MPI_Allreduce" in text, text


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(2600)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_mpi4py(libraries, suite, tmp_path, mpi):  # noqa: F811
    same_outcomes(mpi, suite, 2, tmp_path, {"TUTTI_DCP": "1"})
