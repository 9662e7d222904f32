"""Point-to-point taken over (TUTTI_P2P=1): the programs give the same results with it and without."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import mpis
import pytest
from test_mpi4py import same_outcomes, suite  # noqa: F401 (a fixture)

ALL = list(mpis.MPIS)
PROTOCOLS = ["write", "read", "read_interrupt"]


def check(program, mpi_name: str, ranks: int, source: str, tutti: bool, settings: dict[str, str] | None = None,
          served: str = "MPI_Recv") -> mpis.Result:
    mpi = mpis.ANY[mpi_name]
    taken = {"TUTTI_P2P": "1", "TUTTI_REPORT": "1", **(settings or {})} if tutti else {}
    result = mpis.start(mpi, ranks, [program(mpi, source), "0"], tutti, taken)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    if tutti:  # a run that tutti did not take over proves nothing
        assert any(call == served and not way.startswith("MPI (") for call, way in result.rows()), result.text[-3000:]
    return result


MEASURED = re.compile(r"8 bytes take the MPI (\d+) ns(?: and tutti (\d+) ns)?: messages are (tutti's|the MPI's)")


def by_themselves(program, mpi_name: str, ranks: int, arguments: list[str], settings: dict[str, str]):
    """What a job with TUTTI_P2P=auto has measured, and whether its messages were tutti's."""
    mpi = mpis.MPIS[mpi_name]
    result = mpis.start(mpi, ranks, [program(mpi, arguments[0]), *arguments[1:]], True,
                        {"TUTTI_LOG": "info", "TUTTI_REPORT": "1", "TUTTI_P2P": "auto", **settings})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    taken = any(call == "MPI_Recv" and not way.startswith("MPI (") for call, way in result.rows())
    return MEASURED.findall(result.text), taken


@pytest.mark.mpi
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a processor for each rank: there is one in all")
@pytest.mark.parametrize("mpi", ALL)
def test_by_themselves(program, libraries, mpi):
    """Messages are tutti's where the MPI takes three times as long, and nowhere else."""
    measured, taken = by_themselves(program, mpi, 2, ["messages.c", "0"], {})
    [(native, own, whose)] = measured
    assert taken == (whose == "tutti's")
    if not own:
        assert int(native) <= 301 and not taken
    elif int(native) > 3 * int(own) + 3:
        assert taken
    elif int(native) < 3 * int(own) - 3:
        assert not taken


@pytest.mark.mpi
@pytest.mark.parametrize("case", ["static", "threads", "crowded", "off"])
def test_not_by_themselves(program, libraries, case):
    """Where it was never seen that messages gain, nothing is measured, and they are the MPI's."""
    crowd = len(os.sched_getaffinity(0)) + 1
    ranks = crowd if case == "crowded" else 2
    arguments = ["traffic.c", "0", "20", "4"] if case == "threads" else ["messages.c", "0"]
    settings = {"static": {"TUTTI_CHOICE": "static"}, "off": {"TUTTI_P2P": "off"}}.get(case, {})
    assert by_themselves(program, "mpich", ranks, arguments, settings) == ([], False)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("source,ranks", [("messages.c", 2), ("messages.c", 3), ("progress.c", 2), ("progress.c", 3)])
@pytest.mark.parametrize("mpi", ALL)
def test_program(program, libraries, mpi, source, ranks, tutti):
    check(program, mpi, ranks, source, tutti)


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{}, {"TUTTI_ARENA": "16M"}], ids=["", "small_arena"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mpi", ALL)
def test_new_communicators(program, libraries, mpi, ranks, settings):
    """Messages are tutti's on every new communicator, whatever is done first with it, but not between two groups."""
    rows = check(program, mpi, ranks, "copies.c", True, settings).rows()
    left = {(call, way): count for (call, way), count in rows.items() if way.startswith("MPI (")}
    assert left == {(call, "MPI (intercommunicator)"): ranks // 2 for call in ("MPI_Bsend", "MPI_Recv")}


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_threads_meet_a_communicator(program, libraries, mpi):
    """Two threads at the same time, which send and receive: collectives may not do that."""
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 2, [program(description, "meetings.c"), "200"], True, {"TUTTI_P2P": "1"})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_nobody(program, libraries, mpi):
    """Calls with MPI_PROC_NULL end in tutti, but for matched probes: their message is the MPI's MPI_MESSAGE_NO_PROC."""
    rows = check(program, mpi, 2, "messages.c", True).rows()
    assert {call for call, way in rows if way == "nobody"} == {
        "MPI_Ssend", "MPI_Recv", "MPI_Sendrecv", "MPI_Issend", "MPI_Irecv", "MPI_Probe", "MPI_Iprobe"}
    assert {call for call, way in rows if way == "MPI (nobody)"} == {"MPI_Mprobe"}


@pytest.mark.mpi
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_traffic(program, libraries, mpi, threads):
    """Random messages on communicators of all kinds at once, tutti's and the MPI's. The seed is printed."""
    which = mpis.ANY[mpi]
    result = mpis.start(which, 3, [program(which, "traffic.c"), "0", "20", threads], True, {"TUTTI_P2P": "1"})
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("source", ["messages.c", "progress.c"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocol(program, libraries, protocol, source):
    check(program, "mpich", 2, source, True, {"TUTTI_RENDEZVOUS": protocol})


@pytest.mark.mpi
@pytest.mark.parametrize("source", ["messages.c", "progress.c"])
@pytest.mark.parametrize("setting", ["TUTTI_CMA=off", "TUTTI_UNEXPECTED=8192", "TUTTI_EAGER=0"])
def test_narrow_places(program, libraries, setting, source):
    """Data in parts, little memory for what is not expected, and rendezvous for everything."""
    check(program, "openmpi", 2, source, True, dict([setting.split("=")]))


@pytest.mark.mpi
@pytest.mark.parametrize("source,ranks,served", [
    ("requests.c", 3, "MPI_Irecv"), ("deadlock.c", 2, "MPI_Isend"), ("deadlock.c", 4, "MPI_Isend"),
    ("threads.c", 3, "MPI_Send"), ("datatypes.c", 2, "")])
@pytest.mark.parametrize("mpi", ["mpich", "mpich-abi", "openmpi", "impi"])
def test_together_with_collectives(program, libraries, mpi, source, ranks, served):
    if served:
        check(program, mpi, ranks, source, True, served=served)
    else:
        check(program, mpi, ranks, source, True, served="MPI_Bcast")


@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["mpif", "mpi", "f08"])
@pytest.mark.parametrize("mpi", list(mpis.ANY))
def test_fortran(program, libraries, mpi, kind):
    description = mpis.ANY[mpi]
    path = program(description, f"fortran_{kind}.f90")
    result = mpis.start(description, 2, [path], True, {"TUTTI_P2P": "1", "TUTTI_REPORT": "1"})
    assert result.status == 0, result.text[-3000:]
    assert "passed (0 failures)" in result.text
    assert any(call == "MPI_Irecv" and not way.startswith("MPI (") for call, way in result.rows()), result.text[-2000:]


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("mpi", ["openmpi-debian", "mpich-debian"])
def test_adi(libraries, tmp_path, mpi, ranks):
    """The application of RNDV-2006: its unknowns come out, with messages small and large."""
    description = mpis.ANY[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    source = mpis.ROOT / "examples" / "adi" / "adi.f90"
    subprocess.run([str(description.fortran), "-O2", "-o", "adi", str(source)], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    for points, depth in ((48, 4), (96, 32)):
        result = mpis.start(description, ranks, [str(tmp_path / "adi"), str(points), str(depth), "3"], True,
                            {"TUTTI_P2P": "1", "TUTTI_REPORT": "1", "TUTTI_EAGER": "16384"})
        assert result.status == 0 and "adi: verified" in result.text, result.text[-3000:]
        assert ranks == 1 or result.rows()["MPI_Irecv", "eager" if depth == 4 else "rendezvous"] > 10, result.text


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(2600)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_mpi4py(libraries, suite, tmp_path, mpi, ranks):  # noqa: F811
    """The part of mpi4py's own suite that is about messages."""
    same_outcomes(mpi, suite, ranks, tmp_path, {"TUTTI_P2P": "1"},
                  only=("p2p", "msgspec", "pickle", "request", "status", "threads", "objmodel"))


@pytest.mark.mpi
@pytest.mark.parametrize("taken", ["0", "1"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_time_in_wait_by_call_site(program, libraries, tmp_path, mpi, taken):
    """The report names the places where the program waits, whoever carries the messages."""
    description = mpis.MPIS[mpi]
    path = program(description, "requests.c")
    result = mpis.start(description, 2, [path, "0"], True,
                        {"TUTTI_P2P": taken, "TUTTI_REPORT": "1", "TUTTI_REPORT_JSON": str(tmp_path / "report.json")})
    assert result.status == 0, result.text[-3000:]
    waits = json.loads((tmp_path / "report.json").read_text())["waits"]
    assert {wait["call"] for wait in waits} == {"MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"}
    assert len(waits) == len({(wait["call"], wait["site"]) for wait in waits}) > 4
    for wait in waits:
        assert wait["site"].startswith(Path(path).name + "+0x"), wait
        assert wait["ranks"] == 2 and wait["calls"] >= 2 and 0 < wait["seconds"] <= wait["seconds_all"]
    assert [wait["seconds_all"] for wait in waits] == sorted((wait["seconds_all"] for wait in waits), reverse=True)
    assert "time waiting for requests, by call site" in result.text


WAYS = 12  # of polling.c, the last of them a cancellation
LEAVING = ["freed_send", "freed_synchronous", "freed_persistent_send", "freed_buffered", "freed_receive",
           "freed_receive_from_anybody", "freed_persistent_receive", "freed_matched_receive", "freed_both",
           "freed_vector", "buffered", "buffered_and_detached", "buffered_persistent", "persistent_kept",
           "cancelled_send", "cancelled_receive", "late_stranger"]
SLOPPY = ["never_answered", "never_received", "never_taken", "never_waited_for"]


def leave(program, mpi_name: str, case: str, way: str, size: int, settings: dict[str, str] | None = None,
          wrap=lambda command: command, ranks: int = 3) -> None:
    """A program that leaves something to MPI_Finalize comes to its end, and all has arrived."""
    mpi = mpis.MPIS[mpi_name]
    command = wrap([program(mpi, "leaving.c"), case, way, str(size)])
    taken = {"TUTTI_P2P": "1", "TUTTI_REPORT": "1", **(settings or {})}
    result = mpis.start(mpi, ranks, command, True, taken, limit_s=60)
    assert result.status == 0, f"{case} {way} {size}: status {result.status}\n{result.text[-3000:]}"
    assert result.text.count("in order") == ranks, result.text[-3000:]
    if case not in ("never_taken", "never_answered"):  # a run that tutti did not take over proves nothing
        assert any("send" in call.lower() or "recv" in call.lower() for call, way in result.rows()
                   if not way.startswith("MPI (")), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi"))
@pytest.mark.parametrize("first", range(WAYS))
def test_polling(program, libraries, mpi, first):
    """Whoever polls for messages of anybody gets them, also a rank that has addressed nobody yet."""
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 3, [program(description, "polling.c"), str(first)], True,
                        {"TUTTI_P2P": "1", "TUTTI_REPORT": "1"})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    assert result.rows()["MPI_Irecv", "eager"] >= 2, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi"))
@pytest.mark.parametrize("size", [pytest.param(8, marks=pytest.mark.long), 300000])
def test_leaving(program, libraries, mpi, size):
    for case in LEAVING:
        leave(program, mpi, case, "world", size)
    for case in SLOPPY[:-1]:
        leave(program, mpi, case, "world", size)


@pytest.mark.mpi
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [8, 300000])
@pytest.mark.parametrize("way", ["free", "disconnect"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_leaving_a_communicator(program, libraries, mpi, way, size):
    for case in LEAVING:
        leave(program, mpi, case, way, size)


@pytest.mark.mpi
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, "cma=off"])
def test_leaving_by_protocol(program, libraries, protocol):
    settings = {"TUTTI_CMA": "off"} if protocol == "cma=off" else {"TUTTI_RENDEZVOUS": protocol}
    for case in [*LEAVING, *SLOPPY]:
        leave(program, "mpich", case, "world", 300000, settings)


@pytest.mark.mpi
@pytest.mark.parametrize("size", ["8", "300000"])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi"))
def test_first_probe(program, libraries, mpi, size):
    """The race that this looks for is lost seldom, so there are many ranks and several runs."""
    description = mpis.MPIS[mpi]
    for _ in range(3):
        result = mpis.start(description, 6, [program(description, "first_probe.c"), size], True,
                            {"TUTTI_P2P": "1", "TUTTI_REPORT": "1"}, limit_s=120)
        assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
        assert result.rows()["MPI_Mprobe", "eager"] > 0, result.text[-3000:]
