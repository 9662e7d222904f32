"""The flight recorder and `tutti trace`: what is kept of a program's calls, when it is written, and the time line of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import mpis
import pytest
from test_where import PATIENCE_S, Job, job_of, running, wake_ups
from tutti.trace import recorders
from tutti.trace.command import load

RANKS = 3
ROUNDS = 10
LATE = 3  # allreduces to which rank 1 comes late
TUTTI = [sys.executable, "-m", "tutti"]
# Of each rank, up to the end that the test asks for.
CALLS = ["MPI_Allreduce"] * ROUNDS + ["MPI_Bcast", "MPI_Sendrecv", "MPI_Ibarrier"] + ["MPI_Allreduce"] * LATE


def start(program, mpi_name: str, end: str, folder: Path, settings: dict[str, str] | None = None,
          rounds: int = ROUNDS) -> mpis.Result:
    mpi = mpis.MPIS[mpi_name]
    return mpis.start(mpi, RANKS, [program(mpi, "recorded.c"), end, str(rounds)], True,
                      {"TUTTI_RECORDER_DIR": str(folder), **(settings or {})})


def trace(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*TUTTI, "trace", *arguments], capture_output=True, text=True, timeout=90, check=False)


def names(job: recorders.Job, rank: int) -> list[str]:
    """The rank's calls, but those that end it."""
    found = [one for one in job.ranks if one.rank == rank]
    assert len(found) == 1, f"no recorder of rank {rank}"
    return [call.name for call in found[0].calls][:len(CALLS)]


def keepers(folder: Path) -> list[int]:
    """Those that would write to it."""
    wanted = f"tutti-keep\0{folder}\0".encode()
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if line.read_bytes() == wanted:
                found.append(int(line.parent.name))
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def calls_are_over(job: Job) -> bool:
    """Whether its ranks have made those that are known."""
    seen = job_of(job)
    return seen is not None and seen["size"] == 4 and all(rank["calls"] >= len(CALLS) for rank in seen["ranks"])


def check_order(job: recorders.Job) -> None:
    """A rank is in one call at a time."""
    for rank in job.ranks:
        assert rank.calls
        for one, next_one in zip(rank.calls, rank.calls[1:], strict=False):
            if one.lane == next_one.lane:
                assert one.begin <= one.end <= next_one.begin or not next_one.finished, (one, next_one)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_calls_are_kept(program, libraries, mpi, tmp_path):
    result = start(program, mpi, "finalize", tmp_path)
    assert result.status == 0, result.text
    job = load([str(tmp_path)])
    assert (job.size, [rank.rank for rank in job.ranks]) == (RANKS, list(range(RANKS)))
    check_order(job)
    for rank in range(RANKS):
        assert names(job, rank) == CALLS
    calls = job.ranks[0].calls
    broadcast, message, barrier, last = calls[ROUNDS], calls[ROUNDS + 1], calls[ROUNDS + 2], calls[len(CALLS) - 1]
    assert (broadcast.more["bytes"], broadcast.more["root"], broadcast.more["number"]) == (4096, RANKS - 1, ROUNDS + 1)
    assert (message.more["peer"], message.more["tag"], message.more["communicator"]) == (RANKS - 1, 5, "MPI_COMM_WORLD")
    assert (barrier.more["waits_in"], barrier.more["number"]) == ("MPI_Wait", 1)
    assert (last.more["operation"], last.more["bytes"], last.more["communicator"]) == ("sum of i32", 4, "MPI_COMM_WORLD")
    assert last.more["algorithm"]
    assert re.fullmatch(r"[\w-]+recorded-c\+0x[0-9a-f]+|recorded\.c:\d+ \([\w-]+recorded-c\+0x[0-9a-f]+\)", last.more["site"])


@pytest.mark.mpi
def test_who_was_waited_for(program, libraries, tmp_path):
    assert start(program, "mpich", "finalize", tmp_path).status == 0
    job = load([str(tmp_path)])
    late = [call for rank in (0, 2) for call in job.ranks[rank].calls[len(CALLS) - LATE:len(CALLS)]]
    # Rank 1 has slept for 0.1 s before each; a rank that has not had a processor meanwhile has waited for less.
    waited = [call for call in late if call.waited and call.more["partner"] == 1 and call.more["partner_us"] > 1000]
    assert len(waited) >= len(late) / 2, [call.more for call in late]
    assert all(call.end - call.begin >= call.more["partner_us"] * 1000 for call in waited)


@pytest.mark.mpi
def test_exact_times_are_of_every_call(program, libraries, tmp_path):
    assert start(program, "mpich", "finalize", tmp_path, {"TUTTI_RECORDER": "exact"}).status == 0
    job = load([str(tmp_path)])
    for rank in job.ranks:
        assert all(call.exact for call in rank.calls[1:])  # of the first nobody knows whether the stamp is its own
        assert all(call.more["begin"] for call in rank.calls)
    check_order(job)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,end", [("openmpi", "killed"), ("openmpi", "abort"), ("openmpi", "fault"),
                                     # Where a rank is killed, these launchers kill all of them: the keeper writes.
                                     ("mpich", "killed"), ("impi", "killed"), ("mpich", "abort"), ("mpich", "fault")])
def test_the_recorder_of_a_lost_rank_is_there(program, libraries, mpi, end, tmp_path):
    result = start(program, mpi, end, tmp_path)
    assert result.status not in (0, None), result.text
    wait_until(lambda: not keepers(tmp_path))
    assert list(tmp_path.glob("*.calls")), result.text
    job = load([str(tmp_path)])
    assert names(job, 1) == CALLS, result.text
    last = next(rank for rank in job.ranks if rank.rank == 1).calls[-1]
    assert last.more["site"], "the program's place is known, though its process has gone"
    assert trace(str(tmp_path), "-o", str(tmp_path / "out")).returncode == 0


@pytest.mark.mpi
def test_all_ranks_killed_at_once_are_written(program, libraries, tmp_path):
    settings = {"RECORDED_S": "120", "TUTTI_RECORDER_DIR": str(tmp_path)}
    with running("mpich", [program(mpis.MPIS["mpich"], "recorded.c"), "wait"], settings) as job:
        job.wait_for(lambda: calls_are_over(job))
        keeper, = keepers(tmp_path)
        before = wake_ups(Path(f"/proc/{keeper}"))
        time.sleep(1)
        assert wake_ups(Path(f"/proc/{keeper}")) == before, "it sleeps"
        assert not list(tmp_path.glob("*.calls"))
        for rank in job_of(job)["ranks"]:
            with contextlib.suppress(ProcessLookupError):  # the launcher may have been faster
                os.kill(rank["pid"], signal.SIGKILL)
        wait_until(lambda: not keepers(tmp_path))
    found = load([str(tmp_path)])
    assert [rank.rank for rank in found.ranks] == list(range(4))
    for rank in range(4):
        assert names(found, rank) == CALLS


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "impi"])
def test_where_ranks_were_that_a_launcher_has_killed_for_one_that_left(program, libraries, mpi, tmp_path):
    mpis.start(mpis.MPIS[mpi], 4, [program(mpis.MPIS[mpi], "stuck.c"), "exits"], True, {"TUTTI_RECORDER_DIR": str(tmp_path)})
    wait_until(lambda: not keepers(tmp_path))
    said, = tmp_path.glob("tutti-*-from-0.txt")
    site = r"called at [\w-]*stuck-c\+0x[0-9a-f]+"
    assert re.search(r"ranks 0, 2, 3 \(3 of 4\): ended, inside MPI_Barrier no\. 2 on MPI_COMM_WORLD, " + site, said.read_text())
    assert re.search(r"rank 1: ended; the last call was MPI_Barrier no\. 1 on MPI_COMM_WORLD, " + site, said.read_text())


@pytest.mark.mpi
def test_the_keeper_ends_with_the_job(program, libraries, tmp_path):
    assert start(program, "mpich", "finalize", tmp_path).status == 0
    wait_until(lambda: not keepers(tmp_path))
    assert len(list(tmp_path.iterdir())) == RANKS


@pytest.mark.mpi
def test_a_signal_of_the_users_writes_and_the_program_goes_on(program, libraries, tmp_path):
    result = start(program, "mpich", "user", tmp_path)
    assert result.status == 0 and "ended" in result.text, result.text
    assert names(load([str(tmp_path)]), 2) == CALLS


@pytest.mark.mpi
def test_an_exit_without_finalize_writes(program, libraries, tmp_path):
    start(program, "mpich", "exit", tmp_path)  # whose launcher kills the others when one has left so
    job = load([str(tmp_path)])
    assert all(names(job, rank.rank) == CALLS for rank in job.ranks)


@pytest.mark.mpi
def test_only_the_last_calls_are_kept(program, libraries, tmp_path):
    assert start(program, "mpich", "finalize", tmp_path, rounds=9000).status == 0
    job = load([str(tmp_path)])
    check_order(job)
    for rank in job.ranks:
        assert len(rank.calls) == 4096
        assert [call.name for call in rank.calls][-len(CALLS) + ROUNDS:] == CALLS[ROUNDS:]
        numbers = [call.more["number"] for call in rank.calls if call.name == "MPI_Allreduce"]
        assert numbers == sorted(numbers) and numbers[-1] == 9000 + 1 + LATE


@pytest.mark.mpi
@pytest.mark.parametrize("setting", [{"TUTTI_RECORDER": "off"}, {"TUTTI_RECORDER_DIR": ""}])
def test_nothing_is_written_unless_asked_for(program, libraries, setting, tmp_path):
    result = start(program, "mpich", "finalize", tmp_path / "folder", setting)
    assert result.status == 0 and not list(tmp_path.rglob("*.calls*")), result.text


@pytest.mark.mpi
def test_a_folder_that_cannot_be_is_said(program, libraries, tmp_path):
    (tmp_path / "file").write_text("")
    result = start(program, "mpich", "finalize", tmp_path / "file")
    assert result.status == 0 and "TUTTI_RECORDER_DIR=" in result.text and "Not a directory" in result.text, result.text


def check_perfetto(path: Path) -> dict:
    """By the Trace Event Format: complete events with numbers, which nest in their thread, and names of processes."""
    found = json.loads(path.read_text())
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in found["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid"} <= event.keys()
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and isinstance(event["name"], str)
        assert event["ph"] in ("X", "M")
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0
            threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))
    assert {event["pid"] for event in found["traceEvents"] if event["name"] == "process_name"} == {one for one, _ in threads}
    return found


@pytest.mark.mpi
def test_a_job_that_runs_is_drawn(program, libraries, tmp_path):
    with running("mpich", [program(mpis.MPIS["mpich"], "recorded.c"), "wait"], {"RECORDED_S": "120"}) as job:
        job.wait_for(lambda: calls_are_over(job))
        answer = trace(str(job.process.pid), "-o", str(tmp_path / "line"))
    assert answer.returncode == 0, answer.stderr
    assert "4 of 4 ranks" in answer.stdout
    found = check_perfetto(tmp_path / "line.json")
    assert sum(event["name"] == "MPI_Allreduce" for event in found["traceEvents"]) == 4 * (ROUNDS + LATE)
    root = xml.etree.ElementTree.fromstring((tmp_path / "line.svg").read_text())
    assert len([text for text in root.iter("{http://www.w3.org/2000/svg}text") if (text.text or "").startswith("rank ")]) == 4


@pytest.mark.mpi
def test_a_stalled_job_writes(program, libraries, tmp_path):
    settings = {"TUTTI_STALL": "0.5", "TUTTI_RECORDER_DIR": str(tmp_path)}
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "missing"], settings) as job:
        job.wait_for(lambda: len(list(tmp_path.glob("*.calls"))) == 4)
    found = load([str(tmp_path)])
    waiting, receiving = found.ranks[0].calls[-1], found.ranks[2].calls[-1]
    assert (waiting.name, waiting.more["number"], waiting.finished) == ("MPI_Allreduce", 12, False)
    assert (receiving.name, receiving.more["peer"], receiving.finished) == ("MPI_Recv", 0, False)
    assert trace(str(tmp_path), "-o", str(tmp_path / "out")).returncode == 0
    check_perfetto(tmp_path / "out.json")


def test_what_is_no_recorder_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.calls").write_text("nothing")
    for arguments, message in [(["no-such-job"], "neither a file, nor a job"), ([str(tmp_path / "empty")], "has no file"),
                               ([str(tmp_path / "text.calls")], "no file of tutti's recorder"),
                               ([str(tmp_path / "empty"), "nowhere"], "there is no file nowhere")]:
        answer = trace(*arguments)
        assert answer.returncode in (1, 2) and message in " ".join(answer.stderr.split()), answer.stderr
