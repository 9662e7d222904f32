"""Who waits for whom: the stall report (TUTTI_STALL), the comparison of calls (TUTTI_CHECK=calls) and `tutti where`, on
programs with one known defect each (programs/stuck.c) and on their correct counterparts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mpis
import pytest
from test_nodes import on_nodes
from tutti.where import processes
from tutti.where.rolls import look

RANKS = 4
THREE = ["mpich", "openmpi", "impi"]
PATIENCE_S = 90  # until something must have been said, however loaded the machine is
SITE = r"[\w-]+stuck-c\+0x[0-9a-f]+"
# What the table must say of each defect.
TABLES = {
    "missing": [r"ranks 0, 1, 3 \(3 of 4\): in MPI_Allreduce no\. 12 on MPI_COMM_WORLD \(8 bytes, sum of i64\), called at "
                + SITE,
                r"rank 2: in MPI_Recv from 0 \(tag 77\) on MPI_COMM_WORLD, called at " + SITE,
                r"-> MPI_Allreduce no\. 12 on MPI_COMM_WORLD waits for rank 2$",
                r"-> in a circle: rank 0 waits for rank 2, which waits for rank 0$"],
    "function": [r"-> different collectives have met: .*rank 1 has called MPI_Bcast no\. 2 on MPI_COMM_WORLD "
                 r"\(4 bytes, root 0\) at " + SITE],
    "order": [r"rank 1: in MPI_Barrier no\. 1 on the second", r"ranks 0, 2, 3 \(3 of 4\): in MPI_Barrier no\. 1 on the first",
              r"-> in a circle: rank 0 waits for rank 1, which waits for rank 0$"],
    "messages": [r"rank 3: in MPI_Recv from 0 \(tag 5\) on MPI_COMM_WORLD",
                 r"-> in a circle: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which waits for "
                 r"rank 0$"],
    "requests": [r"rank 3: in MPI_Wait for a message from 0 \(tag 11\) on the ring, called at " + SITE,
                 r"-> in a circle: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which waits for "
                 r"rank 0$"],
    "nonblocking": [r"ranks 0, 2, 3 \(3 of 4\): in MPI_Wait for MPI_Iallreduce no\. 1 on MPI_COMM_WORLD \(4 bytes, sum of i32\)",
                    r"-> MPI_Iallreduce no\. 1 on MPI_COMM_WORLD waits for rank 1$"],
    "loop": [r"rank 1: computing, outside MPI; the last call was MPI_Barrier no\. 1 on MPI_COMM_WORLD",
             r"-> MPI_Barrier no\. 2 on MPI_COMM_WORLD waits for rank 1$"],
    "first_leaves": [r"rank 0: in MPI_Finalize", r"ranks 1-3 \(3 of 4\): in MPI_Recv from 0 \(tag 8\)"],
    "threads": [r"rank 1: in MPI_Recv from 0 \(tag 1\)", r"rank 1: in MPI_Recv from 0 \(tag 2\)",
                r"rank 1: in MPI_Barrier no\. 1"],
}
# What comparing the calls must say, once.
FINDINGS = {
    "root": r"the roots differ: rank \d has called MPI_Bcast no\. 2 on MPI_COMM_WORLD \(4 bytes, root \d\) at " + SITE
            + r"; rank \d MPI_Bcast no\. 2 on MPI_COMM_WORLD \(4 bytes, root \d\)",  # it may have ended: no site then
    "started_root": r"the roots differ: rank \d has called MPI_Ibcast no\. 1 on MPI_COMM_WORLD \(4 bytes, root \d\)",
    "count": r"the numbers of bytes differ: rank \d has called MPI_Allreduce no\. 2 on MPI_COMM_WORLD",
    "operator": r"the operators or types differ: rank \d has called MPI_Allreduce no\. 2 on MPI_COMM_WORLD",
    "again": r"the operators or types differ: rank \d has called MPI_Allreduce no\. 1 on MPI_COMM_WORLD",
    "function": r"different collectives have met: rank \d has called MPI_\w+ no\. 2 on MPI_COMM_WORLD",
    "buffer": r"\[rank 1\] what MPI_Iallreduce no\. 1 on MPI_COMM_WORLD \(4 bytes, sum of i32\) at " + SITE
              + " sends was changed before it was completed at " + SITE,
    "reused": r"\[rank 1\] what MPI_Isend to 0 \(tag 9\) on MPI_COMM_WORLD at " + SITE
              + " sends was changed before it was completed at " + SITE,
    "unmapped": r"\[rank 1\] what MPI_Isend to 0 \(tag 12\) on MPI_COMM_WORLD at " + SITE
                + " sends was given back before it was completed at " + SITE,
    "overlap": r"\[rank 1\] the buffers of two pending calls overlap: MPI_Isend to 0 \(tag 10\) on MPI_COMM_WORLD at " + SITE
               + r" reads what MPI_Irecv from 0 \(tag 10\) on MPI_COMM_WORLD at " + SITE + " writes",
}
DIFFER = re.compile(r"differ: |have met: |was changed |given back |overlap: ")
# Seen where messages are tutti's.
MESSAGES = {defect: {"TUTTI_P2P": "1"} for defect in ("requests", "reused", "unmapped", "overlap")}
TUTTI = [sys.executable, "-m", "tutti"]


class Job:
    """A job that goes on while the test looks at it; it never outlives the test."""

    def __init__(self, mpi: mpis.Mpi, command: list[str], settings: dict[str, str], ranks: int) -> None:
        variables = [f"{name}={value}" for name, value in {
            **mpi.environment, "STUCK_S": str(2 * PATIENCE_S), **settings, "LD_PRELOAD": mpis.preloaded(mpi, settings)}.items()]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        self.text = ""
        self.process = subprocess.Popen([*mpi.launcher, "-n", str(ranks), "env", *variables, *command], text=True,
                                        errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**clean, **mpi.environment}, start_new_session=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until it holds; fails when it never does."""
        end = time.monotonic() + PATIENCE_S
        while True:
            ended = not self._reader.is_alive()  # asked first: its last words count
            if condition():
                return
            assert time.monotonic() < end and not ended, self.text[-6000:]
            time.sleep(0.05)

    def end(self) -> None:
        started = mpis.processes.below(self.process.pid)  # ranks may be in sessions of their own, and outlive the launcher
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for rank in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)
        self._reader.join()


@contextlib.contextmanager
def running(mpi_name: str, command: list[str], settings: dict[str, str], ranks: int = RANKS) -> Iterator[Job]:
    job = Job(mpis.MPIS[mpi_name], command, settings, ranks)
    try:
        yield job
    finally:
        job.end()


def says(job: Job, patterns: list[str]) -> Callable[[], bool]:
    return lambda: all(re.search(pattern, job.text, re.MULTILINE) for pattern in patterns)


def where(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*TUTTI, "where", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.mpi
@pytest.mark.parametrize("defect", TABLES)
@pytest.mark.parametrize("mpi", mpis.first(*THREE))
def test_stall_report(program, libraries, mpi, defect):
    settings = {"TUTTI_STALL": "1", **MESSAGES.get(defect, {})}
    with running(mpi, [program(mpis.MPIS[mpi], "stuck.c"), defect], settings) as job:
        job.wait_for(says(job, TABLES[defect]))


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,defect", [*((mpi, "leaves") for mpi in THREE), ("openmpi", "exits")])
def test_a_rank_that_leaves_is_named(program, libraries, mpi, defect):
    result = mpis.start(mpis.MPIS[mpi], RANKS, [program(mpis.MPIS[mpi], "stuck.c"), defect], True, {})
    assert result.status != 0
    assert re.search(r"rank 1 \(pid \d+\) died during MPI_Barrier on MPI_COMM_WORLD", result.text), result.text


@pytest.mark.mpi
def test_stall_report_of_messages_that_are_tuttis(program, libraries):
    settings = {"TUTTI_STALL": "1", "TUTTI_P2P": "1"}
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "messages"], settings) as job:
        job.wait_for(says(job, TABLES["messages"]))


def watchers(job: Job) -> list[Path]:
    """The threads that look for stalls in its ranks."""
    names = [name for rank in job_of(job)["ranks"] for name in Path(f"/proc/{rank['pid']}/task").glob("*/comm")]
    return [name.parent for name in names if name.read_text().strip() == "tutti-watch"]


def wake_ups(thread: Path) -> int:
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.MULTILINE)[1])


@pytest.mark.mpi
def test_however_short_a_stall_is_nobody_polls(program, libraries):
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "missing"], {"TUTTI_STALL": "0.000001"}) as job:
        job.wait_for(says(job, TABLES["missing"][2:3]))
        threads = watchers(job)
        assert len(threads) == 2, threads  # of the node's first rank and of its last
        begin, before = time.monotonic(), [wake_ups(thread) for thread in threads]
        time.sleep(1)
        after, seconds = [wake_ups(thread) for thread in threads], time.monotonic() - begin
        assert max(b - a for a, b in zip(before, after, strict=True)) <= 110 * seconds, (before, after)


@pytest.mark.mpi
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("mpi", mpis.first(*THREE))
def test_one_node_tells_of_the_ranks_of_all(program, libraries, mpi, placement):
    command = on_nodes(placement, [program(mpis.MPIS[mpi], "stuck.c"), "missing"])
    head = r"^.*tutti: a call has lasted for (\d+) s; what the ranks are doing"
    with running(mpi, command, {"TUTTI_STALL": "2", "TUTTI_NET": "on"}) as job:
        job.wait_for(says(job, [head, *TABLES["missing"]]))
        job.wait_for(lambda: len(re.findall(head, job.text, re.MULTILINE)) > 1)
    assert "of this node" not in job.text
    ages = [int(age) for age in re.findall(head, job.text, re.MULTILINE)]
    assert all(2 * earlier <= later + 1 for earlier, later in zip(ages, ages[1:], strict=False)), job.text


@pytest.mark.mpi
def test_each_node_tells_of_its_own_ranks_where_the_first_is_stopped(program, libraries):
    command = on_nodes("apart", [program(mpis.MPIS["mpich"], "stuck.c"), "stopped"])
    expected = [r"what the ranks of this node are doing",
                *(rf"rank {rank}: in MPI_Barrier no\. 1 on MPI_COMM_WORLD" for rank in range(1, RANKS))]
    with running("mpich", command, {"TUTTI_STALL": "1", "TUTTI_NET": "on"}) as job:
        job.wait_for(says(job, expected))


@pytest.mark.mpi
def test_each_node_tells_of_its_own_ranks_where_the_first_has_left(program, libraries):
    command = on_nodes("pairs", [program(mpis.MPIS["mpich"], "stuck.c"), "first_leaves"])
    expected = [r"what the ranks of this node are doing", r"ranks 2, 3 \(2 of 4\): in MPI_Recv from 0 \(tag 8\)",
                r"rank 0: in MPI_Finalize", r"rank 1: in MPI_Recv from 0 \(tag 8\)"]
    with running("mpich", command, {"TUTTI_STALL": "1", "TUTTI_NET": "on"}) as job:
        job.wait_for(says(job, expected))


@pytest.mark.mpi
@pytest.mark.parametrize("defect", FINDINGS)
@pytest.mark.parametrize("mpi", mpis.first(*THREE))
def test_calls_are_compared(program, libraries, mpi, defect):
    settings = {"TUTTI_CHECK": "calls", "TUTTI_STALL": "0", **MESSAGES.get(defect, {})}
    with running(mpi, [program(mpis.MPIS[mpi], "stuck.c"), defect], settings) as job:
        job.wait_for(says(job, [FINDINGS[defect]]))
    assert len(DIFFER.findall(job.text)) == 1, job.text


@pytest.mark.mpi
@pytest.mark.parametrize("defect", [defect for defect, finding in FINDINGS.items() if r"rank \d has called" in finding])
@pytest.mark.parametrize("mpi", mpis.first(*THREE))
def test_calls_are_compared_between_nodes(program, libraries, mpi, defect):
    """Each rank is a node of its own, so none sees another one's record."""
    command = on_nodes("apart", [program(mpis.MPIS[mpi], "stuck.c"), defect])
    with running(mpi, command, {"TUTTI_CHECK": "calls", "TUTTI_STALL": "0", "TUTTI_NET": "on"}) as job:
        job.wait_for(says(job, [FINDINGS[defect]]))
    assert len(DIFFER.findall(job.text)) == 1, job.text


@pytest.mark.mpi
@pytest.mark.parametrize("placement", ["apart", "pairs"])
def test_nothing_is_found_between_nodes_in_correct_programs(program, libraries, placement):
    mpi = mpis.MPIS["mpich"]
    for words in (["stuck.c", "all", "right"], ["collectives.c", "20011"], ["communicators.c", "20"], ["persistent.c", "31"]):
        command = on_nodes(placement, [program(mpi, words[0]), *words[1:]])
        settings = {"TUTTI_CHECK": "calls", "TUTTI_NET": "on", "STUCK_S": "200"}
        result = mpis.start(mpi, RANKS, command, True, settings)
        assert result.status == 0, f"{words}: {result.text[-3000:]}"
        assert "ended" in result.text or "passed (0 failures)" in result.text, result.text[-3000:]
        assert not DIFFER.search(result.text), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", THREE)
def test_a_request_that_is_never_completed_is_named(program, libraries, mpi):
    command = [program(mpis.MPIS[mpi], "stuck.c"), "unwaited"]
    result = mpis.start(mpis.MPIS[mpi], RANKS, command, True, {"TUTTI_CHECK": "calls"})
    assert result.status == 0, result.text
    assert len(re.findall("was never completed", result.text)) == 1, result.text
    assert re.search(r"\[rank 1\] MPI_Ibarrier no\. \d on MPI_COMM_WORLD at " + SITE + " was never completed", result.text)


@pytest.mark.mpi
@pytest.mark.parametrize("messages", ["0", "1"])
@pytest.mark.parametrize("mpi", mpis.first(*THREE))
def test_nothing_is_found_in_correct_programs(program, libraries, mpi, messages):
    command = program(mpis.MPIS[mpi], "stuck.c")
    settings = {"TUTTI_CHECK": "calls", "STUCK_S": "200", "TUTTI_P2P": messages}
    result = mpis.start(mpis.MPIS[mpi], RANKS, [command, "all", "right"], True, settings)
    assert result.status == 0 and "ended" in result.text, result.text
    assert "tutti:" not in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("source,arguments", [("collectives.c", ["20011"]), ("communicators.c", ["20"]),
                                              ("persistent.c", ["31"])])
def test_nothing_is_found_in_the_programs_of_other_tests(program, libraries, source, arguments):
    mpi = mpis.MPIS["mpich"]
    result = mpis.start(mpi, 3, [program(mpi, source), *arguments], True, {"TUTTI_CHECK": "calls"})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    assert not DIFFER.search(result.text), result.text[-3000:]


def job_of(job: Job) -> dict | None:
    """What is seen of it, or None as long as nothing is."""
    for seen in look(source=False):
        if any(job.process.pid in processes.ancestors(rank["pid"]) for rank in seen["ranks"]):
            return seen
    return None


def calls_of(job: Job) -> list[int]:
    """How many calls each rank has made."""
    seen = job_of(job)
    assert seen is not None and seen["size"] == RANKS
    assert [rank["rank"] for rank in seen["ranks"]] == list(range(RANKS))
    assert not [finding for finding in seen["findings"] if DIFFER.search(finding)]
    return [rank["calls"] for rank in seen["ranks"]]


@pytest.mark.mpi
@pytest.mark.parametrize("segment", ["memfd", "posix"])
def test_where_sees_a_job_that_runs(program, libraries, segment):
    settings = {"TUTTI_STALL": "0", "TUTTI_SEGMENT": segment}
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "busy"], settings) as job:
        job.wait_for(lambda: (seen := job_of(job)) is not None and len(seen["ranks"]) == RANKS)
        before = calls_of(job)
        job.wait_for(lambda: all(after > one for after, one in zip(calls_of(job), before, strict=True)))


@pytest.mark.mpi
def test_where_names_the_ranks_of_a_job_that_hangs(program, libraries):
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "missing"], {"TUTTI_STALL": "0"}) as job:
        pid = str(job.process.pid)
        expected = re.compile(TABLES["missing"][0] + r"(?s:.*)" + TABLES["missing"][1] + r"(?s:.*)" + TABLES["missing"][2],
                              re.MULTILINE)
        job.wait_for(lambda: expected.search(where(pid).stdout) is not None)
        looked = json.loads(where("--json", pid).stdout)
        groups = {tuple(group["ranks"]): group for group in looked[0]["groups"]}
        # By its name, and by a rank's number, it is the same job.
        name, rank = looked[0]["job"], looked[0]["ranks"][1]["pid"]
        for wanted in (name, str(rank)):
            assert [one["job"] for one in json.loads(where("--json", wanted).stdout)] == [name]
    waiting, receiving = groups[0, 1, 3], groups[2,]
    assert (waiting["call"], waiting["number"], waiting["bytes"], waiting["communicator"]) == (
        "MPI_Allreduce", 12, 8, "MPI_COMM_WORLD")
    assert waiting["state"] == receiving["state"] == "inside" and waiting["seconds"] >= 0
    assert (receiving["call"], receiving["peer"], receiving["tag"]) == ("MPI_Recv", 0, 77)


@pytest.mark.mpi
@pytest.mark.crowd
@pytest.mark.timeout(400)
@pytest.mark.parametrize("program_is", ["busy", "missing"])
def test_where_sees_64_ranks(program, libraries, program_is):
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), program_is], {"TUTTI_STALL": "0"}, 64) as job:
        job.wait_for(lambda: (seen := job_of(job)) is not None and len(seen["ranks"]) == 64)
        if program_is == "missing":
            expected = [r"job \w{8}: .*, 64 ranks$", r"ranks 0, 1, 3-63 \(63 of 64\): in MPI_Allreduce no\. 12 ",
                        r"-> MPI_Allreduce no\. 12 on MPI_COMM_WORLD waits for rank 2$"]
            def is_named() -> bool:
                said = where(str(job.process.pid)).stdout
                return all(re.search(pattern, said, re.MULTILINE) for pattern in expected)
            job.wait_for(is_named)
        else:
            before = job_of(job)["ranks"]
            job.wait_for(lambda: all(later["calls"] > one["calls"]
                                     for one, later in zip(before, job_of(job)["ranks"], strict=True)))


@pytest.mark.mpi
def test_nothing_is_left_behind(program, libraries):
    with running("mpich", [program(mpis.MPIS["mpich"], "stuck.c"), "loop"], {"TUTTI_STALL": "0"}) as job:
        job.wait_for(lambda: (seen := job_of(job)) is not None and len(seen["ranks"]) == RANKS)
        looked = job_of(job)
        for rank in looked["ranks"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank["pid"], signal.SIGKILL)
        end = time.monotonic() + PATIENCE_S
        while any(seen["job"] == looked["job"] for seen in look(source=False)):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_where_says_what_would_be_right():
    answer = where("no-such-job")
    assert answer.returncode == 1 and "neither a job with tutti on this machine" in answer.stderr
    answer = where("--json", "--watch", "1")
    assert answer.returncode == 2 and "--json prints once" in answer.stderr
    answer = where("--here", "--nodes", "n1")
    assert answer.returncode == 2 and "--here and --nodes are opposites" in answer.stderr
