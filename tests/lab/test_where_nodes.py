"""`tutti where` over the nodes of a job: an agent on each is started by what the launcher uses for ssh. The programs with one
known defect each (tests/mpi/programs/stuck.c), one rank on each node, and their correct counterparts."""

import json
import os
import re
import sys
import time

import pytest
from conftest import ROOT
from tutti import command
from tutti.bench import peers, program
from tutti.lab import Lab

PATIENCE_S = 90
RANKS = 4
WHERE = [sys.executable, "-m", "tutti", "where"]
ONE = pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
AT = r".* at [\w .:()-]*stuck[\w-]*\+0x[0-9a-f]+"  # a place in the program
# What the table must say of each defect; `^tutti`: what a rank must say by itself, since others have no part in it.
DEFECTS = {
    "missing": [r"ranks 0, 1, 3 \(3 of 4\): in MPI_Allreduce no\. 12 on MPI_COMM_WORLD \(8 bytes, sum of i64\), called" + AT,
                r"rank 2: in MPI_Recv from 0 \(tag 77\) on MPI_COMM_WORLD, called" + AT,
                r"-> MPI_Allreduce no\. 12 on MPI_COMM_WORLD waits for rank 2$",
                r"-> in a circle: rank 0 waits for rank 2, which waits for rank 0$"],
    "root": [r"-> the roots differ: ranks 0, 2, 3 \(3 of 4\) have called MPI_Bcast no\. 2 on MPI_COMM_WORLD \(4 bytes, root 0\)"
             + AT + r"; rank 1 has called MPI_Bcast no\. 2 on MPI_COMM_WORLD \(4 bytes, root 1\)" + AT],
    "count": [r"-> the numbers of bytes differ: .*rank 1 has called MPI_Allreduce no\. 2 on MPI_COMM_WORLD \(1,600,000 bytes"
              + AT],
    "operator": [r"-> the operators or types differ: .*rank 1 has called MPI_Allreduce no\. 2 on MPI_COMM_WORLD .*max of i32\)"
                 + AT],
    "order": [r"rank 1: in MPI_Barrier no\. 1 on the second, called" + AT,
              r"ranks 0, 2, 3 \(3 of 4\): in MPI_Barrier no\. 1 on the first, called" + AT,
              r"-> in a circle: rank 0 waits for rank 1, which waits for rank 0$"],
    # Open MPI's launcher may be faster than tutti, and end the connection to another rank first.
    "exits": [r"^tutti: .*rank 1 on node n1 is lost|^prterun has exited due to process rank 1 with PID \d+ on node n1 exiting"
              r"|^\[n\d:\d+\] \*\*\* An error occurred in Socket closed$"],
    "messages": [r"rank 3: in MPI_Recv from 0 \(tag 5\) on MPI_COMM_WORLD, called" + AT,
                 r"-> in a circle: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which waits for "
                 r"rank 0$"],
    "requests": [r"rank 3: in MPI_Wait for a message from 0 \(tag 11\) on the ring, called" + AT,
                 r"-> in a circle: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which waits for "
                 r"rank 0$"],
    "nonblocking": [r"ranks 0, 2, 3 \(3 of 4\): in MPI_Wait for MPI_Iallreduce no\. 1 on MPI_COMM_WORLD",
                    r"-> MPI_Iallreduce no\. 1 on MPI_COMM_WORLD waits for rank 1$"],
    # Some launchers put the words of several ranks on one line.
    "buffer": [r"^.*tutti: \[rank 1\] what MPI_Iallreduce no\. 1 on MPI_COMM_WORLD \(4 bytes, sum of i32\)" + AT
               + r" sends was changed before it was completed at "],
    "reused": [r"^.*tutti: \[rank 1\] what MPI_Isend to 0 \(tag 9\) on MPI_COMM_WORLD" + AT
               + r" sends was changed before it was completed at "],
    "loop": [r"rank 1: computing, outside MPI; the last call was MPI_Barrier no\. 1 on MPI_COMM_WORLD",
             r"-> MPI_Barrier no\. 2 on MPI_COMM_WORLD waits for rank 1$"],
}
STAY = ("root", "count", "operator")  # these come to their end


class Stuck:
    """The program with a defect on the nodes of a lab."""

    def __init__(self, lab, mpi, folder, words, ranks=RANKS, **settings):
        binary = program.compile_for(mpi, ROOT / "tests" / "mpi" / "programs" / "stuck.c")
        choice = peers.lab_settings(mpi)
        line = peers.command_line(mpi, ranks, choice, [str(binary), *words])
        environment = peers.environment(mpi, choice) | {
            "TUTTI_NET": "on", "TUTTI_STALL": "0", "TUTTI_CHECK": "calls", "TUTTI_P2P": "1", "TUTTI_NET_TIMEOUT": "5",
            "STUCK_S": str(2 * PATIENCE_S), **settings}
        self.lab, self.file = lab, folder / "said"
        with self.file.open("wb") as output:
            self.command = lab.start(lab.command_line([*command(), "run", *line]), env=environment, stdout=output,
                                     stderr=output)

    def said(self):
        return self.file.read_text(errors="replace")

    def where(self, *arguments, node="n0"):
        """What `tutti where` says on a node."""
        return self.lab.run([*WHERE, *arguments], node=node, timeout=PATIENCE_S, env=os.environ)

    def expect(self, patterns, look):
        """Until all have been said; what was said last."""
        end = time.monotonic() + PATIENCE_S
        while True:
            text = look()
            if all(re.search(pattern, text, re.MULTILINE) for pattern in patterns):
                return text
            assert time.monotonic() < end, text + self.said()[-3000:]
            time.sleep(0.2)

    def end(self):
        self.lab.clear()
        self.command.close()


def nothing_is_left(lab):
    """No agent is."""
    for node in lab.nodes:
        running = lab.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"], node=node, timeout=30).stdout
        assert "tutti.where.agent" not in running, running


@pytest.mark.timeout(200)
@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_named(mpi, tmp_path, defect):
    settings = {"STUCK_STAY": "1"} if defect in STAY else {}
    with Lab(RANKS, latency="100us") as lab:
        job = Stuck(lab, mpi, tmp_path, [defect], **settings)
        by_itself = [pattern for pattern in DEFECTS[defect] if pattern.startswith("^")]
        job.expect(by_itself, job.said)
        if not by_itself:
            text = job.expect(DEFECTS[defect], lambda: job.where().stdout)
            assert re.search(r"^job \w{8}: .*, 4 ranks on 4 machines$", text, re.MULTILINE), text
        job.end()


@pytest.mark.timeout(200)
def test_the_first_node_tells_of_a_stall_of_all(mpi, tmp_path):
    with Lab(RANKS, latency="100us") as lab:
        job = Stuck(lab, mpi, tmp_path, ["missing"], TUTTI_STALL="2")
        text = job.expect(DEFECTS["missing"], job.said)
        assert "of this node" not in text
        job.end()


@pytest.mark.timeout(200)
def test_nothing_is_found_in_correct_programs(mpi, tmp_path):
    with Lab(RANKS, latency="100us") as lab:
        job = Stuck(lab, mpi, tmp_path, ["all", "right"], STUCK_STAY="1")
        job.expect(["^ended$"], job.said)
        seen = json.loads(job.where("--json").stdout)
        assert [(one["findings"], len(one["ranks"])) for one in seen] == [([], RANKS)]
        assert not re.search("^tutti: (?!took over)", job.said(), re.MULTILINE), job.said()
        job.end()


@pytest.mark.timeout(200)
@ONE
def test_eight_nodes_while_they_run(mpi, tmp_path):
    with Lab(8, latency="100us") as lab:
        job = Stuck(lab, mpi, tmp_path, ["busy"], ranks=8)
        job.expect(["8 ranks on 8 machines"], lambda: job.where().stdout)
        looks = [json.loads(job.where("--json", node=node).stdout)[0] for node in ("n0", "n5", "n0")]
        for before, after in zip(looks, looks[1:], strict=False):
            assert before["job"] == after["job"] and before["not_seen"] == {}
            assert [(rank["rank"], rank["machine"]) for rank in after["ranks"]] == [(i, f"n{i}") for i in range(8)]
            assert all(later["calls"] > rank["calls"] for rank, later in zip(before["ranks"], after["ranks"], strict=True))
        assert not [finding for look in looks for finding in look["findings"] if "differ" in finding or "circle" in finding]
        nothing_is_left(lab)
        job.end()


@pytest.mark.timeout(200)
@ONE
def test_eight_nodes_while_they_hang(mpi, tmp_path):
    with Lab(8, latency="100us") as lab:
        job = Stuck(lab, mpi, tmp_path, ["missing"], ranks=8)
        job.expect([r"ranks 0, 1, 3-7 \(7 of 8\): in MPI_Allreduce no\. 12 ",
                    r"-> MPI_Allreduce no\. 12 on MPI_COMM_WORLD waits for rank 2$"], lambda: job.where(node="n3").stdout)
        # From a machine that none of its ranks is on, and of one machine by itself.
        named = job.where("--nodes", "n1,n2,nowhere", node="head")
        assert "2 of 8 ranks on 2 machines" in named.stdout and "nowhere is not seen: " in named.stdout, named
        assert "1 of 8 ranks on this machine" in job.where("--here").stdout
        nothing_is_left(lab)
        job.end()
