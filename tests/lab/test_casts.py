"""Broadcasts and sums by multicast when the network stops carrying groups, when a member is killed or stopped in the middle,
and when they are tried beside trees."""

import re
import time

import pytest
from conftest import PROGRAMS
from tutti import command
from tutti.bench import peers, program
from tutti.lab import Lab

NODES = 4
LIMIT_S = 100  # for what takes seconds on an idle machine
ONE = pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # what is tested does not depend on the MPI
ALGORITHMS = ["bcast=multicast", "bcast=multicast_window", "allreduce=tree_multicast"]
TREE, AGAIN = "go by a tree: multicast is repaired too often", "go by multicast again"


class Casts:
    """The program on the nodes of a lab, until stop(). What it calls follows from the algorithm that is asked for."""

    def __init__(self, lab, found, folder, size, algorithm, nodes=NODES, **settings):
        binary = program.compile_for(found, PROGRAMS / "casts.c")
        choice = peers.Settings()
        sums = ["sums"] if algorithm.startswith("allreduce") else []
        words = peers.command_line(found, nodes, choice, [str(binary), str(size), str(folder), *sums])
        environment = peers.environment(found, choice) | {
            "TUTTI_NET": "on", "TUTTI_MULTICAST": "on", "TUTTI_ALG": algorithm, "TUTTI_LOG": "info"} | settings
        self.lab, self.folder = lab, folder
        with (folder / "said").open("wb") as output:
            self.command = lab.start(lab.command_line([*command(), "run", "--report", *words]), env=environment,
                                     stdout=output, stderr=output)

    def said(self):
        return (self.folder / "said").read_text(errors="replace")

    def wait_until(self, condition):
        limit = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < limit and self.command.poll() is None, self.said()[-3000:]
            time.sleep(0.05)

    def wait_ready(self):
        self.wait_until((self.folder / "ready").exists)

    def kill(self, rank, how):
        """A signal to a rank, whose node is of its number."""
        process = (self.folder / f"pid.{rank}").read_text()
        assert self.lab.run(["kill", f"-{how}", process], node=f"n{rank}").returncode == 0

    def stop(self):
        (self.folder / "stop").touch()
        status = self.command.wait(LIMIT_S)
        self.command.close()
        assert status == 0 and re.search(r"^[1-9]\d* (broadcasts|sums), 0 wrong$", self.said(), re.MULTILINE), self.said()[-3000:]


@ONE
@pytest.mark.timeout(400)
def test_multicast_is_left_where_the_switch_drops_groups_and_comes_back(mpi, tmp_path):
    with Lab(NODES, latency="100us") as lab:
        lab.change(groups=False)
        job = Casts(lab, mpi, tmp_path, 100, "bcast=multicast")
        job.wait_until(lambda: job.said().count(TREE) == 1)
        lab.change(groups=True)
        job.wait_until(lambda: AGAIN in job.said())
        lab.change(groups=False)
        job.wait_until(lambda: job.said().count(TREE) == 2)
        job.stop()
    report = re.search(r"^multicast: (\d+) broadcasts, (\d+) of (\d+) fragments repaired by neighbours; left (\d+) times, "
                       r"resumed 1 times, (\d+) broadcasts by a tree meanwhile$", job.said(), re.MULTILINE)
    assert report and all(int(number) > 0 for number in report.groups()), job.said()[-3000:]
    assert int(report[2]) <= int(report[3]) and int(report[4]) >= 2  # for one root first, where the drop falls between surveys


@ONE
@pytest.mark.timeout(250)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_killed_member_ends_the_job(mpi, tmp_path, algorithm):
    with Lab(NODES, latency="100us") as lab:
        job = Casts(lab, mpi, tmp_path, 5000, algorithm)
        job.wait_ready()
        job.kill(2, "KILL")
        assert job.command.wait(LIMIT_S) != 0
        job.command.close()
    assert "wrong" not in job.said(), job.said()[-3000:]


@ONE
@pytest.mark.timeout(250)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stopped_member_is_waited_for(mpi, tmp_path, algorithm):
    with Lab(NODES, latency="100us") as lab:
        job = Casts(lab, mpi, tmp_path, 5000, algorithm)
        job.wait_ready()
        for rank in (2, 0):
            job.kill(rank, "STOP")
            time.sleep(1)
            assert job.command.poll() is None, job.said()[-3000:]
            job.kill(rank, "CONT")
        job.stop()


@ONE
@pytest.mark.timeout(250)
@pytest.mark.parametrize("multicast", ["auto", "off"])
def test_sums_by_multicast_are_tried_where_there_is_multicast(mpi, tmp_path, multicast):
    with Lab(9, latency="100us") as lab:
        job = Casts(lab, mpi, tmp_path, 100, "allreduce", 9, TUTTI_ALG="", TUTTI_MULTICAST=multicast)
        job.wait_ready()
        time.sleep(8)  # a trial begins after 100 ms in these calls
        job.stop()
    algorithms = set(re.findall(r"^MPI_Allreduce +(\S+) ", job.said(), re.MULTILINE))
    assert "recursive_doubling" in algorithms, job.said()[-3000:]
    assert ("tree_multicast" in algorithms) == (multicast == "auto"), job.said()[-3000:]
