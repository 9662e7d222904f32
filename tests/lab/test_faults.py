"""Programs under tutti when the network between their nodes fails: no hang, no wrong result, and an error in time that
names the node."""

import re
import time

import pytest
from conftest import PROGRAMS
from tutti import command
from tutti.lab import Lab

TIMEOUT_S = 3  # TUTTI_NET_TIMEOUT
PATIENCE_S = 15  # from the fault until every rank has been told


class Job:
    """The program on three nodes, until `end`: the launcher itself may wait for ever for nodes out of reach."""

    def __init__(self, lab, mpi, launch, folder, *arguments, program="endless.py", **extra):
        command_line = [str(PROGRAMS / program), str(folder), *map(str, arguments)]
        words, environment = launch(3, [str(mpi.prefix / "bin" / "python"), *command_line])
        environment = {**environment, "TUTTI_NET": "on", "TUTTI_NET_TIMEOUT": str(TIMEOUT_S), **extra}
        self.lab, self.folder = lab, folder
        with (folder / "said").open("wb") as output:
            self.command = lab.start(lab.command_line([*command(), "run", *words]), env=environment, stdout=output,
                                     stderr=output)

    def said(self):
        return (self.folder / "said").read_text(errors="replace")

    def spoken(self):
        """What ranks have seen: an error, or a wrong result."""
        return [path.read_text() for path in self.folder.iterdir() if path.name.isdigit()]

    def wait_until(self, condition, limit_s):
        limit = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < limit, f"{[path.name for path in self.folder.iterdir()]} {self.said()}"
            time.sleep(0.05)

    def wait_for(self, names, limit_s):
        self.wait_until(lambda: all((self.folder / name).exists() for name in names), limit_s)
        return [(self.folder / name).read_text() for name in names]

    def end(self):
        self.lab.clear()
        self.command.wait(30)
        self.command.close()


@pytest.fixture(params=["mpich"])
def mpi(request):
    from conftest import ROOT
    from tutti.host import mpis

    found = mpis.in_folder(ROOT / ".envs" / request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed in .envs (make test installs it)")
    return found


@pytest.mark.timeout(150)
@pytest.mark.parametrize("cut", [("n1",), ("n0", "n1")])
def test_a_cut_is_an_error_in_time(mpi, launch, tmp_path, cut):
    with Lab(3, latency="200us") as lab:
        job = Job(lab, mpi, launch, tmp_path)
        job.wait_for(["ready"], 60)
        lab.cut(*cut)
        told = job.wait_for(["0", "1", "2"] if len(cut) == 2 else ["0", "2"], PATIENCE_S)
        job.wait_until(lambda: re.search("on node n[01] is lost", job.said()), PATIENCE_S)
        job.end()
    assert all(text.startswith("told ") for text in told), told


# Eager in one packet and in several, with a head, and each protocol of those that are announced.
MESSAGES = [((800,), {}), ((100_000,), {}), ((1_000_000, "blocking"), {}),
            *(((1_000_000,), {"TUTTI_RENDEZVOUS": protocol}) for protocol in ("read_interrupt", "read", "write"))]


@pytest.mark.timeout(150)
@pytest.mark.parametrize("arguments,extra", MESSAGES)
def test_a_cut_in_the_middle_of_messages(mpi, launch, tmp_path, arguments, extra):
    """Who sends to a node that is cut off, or waits for it, is told; and who waits for those that have ended."""
    with Lab(3, latency="200us") as lab:
        job = Job(lab, mpi, launch, tmp_path, *arguments, TUTTI_P2P="1", **extra)
        job.wait_for(["ready"], 60)
        lab.cut("n1")
        told = job.wait_for(["0", "2"], PATIENCE_S)
        job.end()
    assert all(text.startswith("told ") for text in told), told


@pytest.mark.timeout(150)
@pytest.mark.parametrize("room", [16, 1 << 20])
def test_a_cut_in_the_middle_of_a_head(mpi, launch, tmp_path, room):
    """A receive with little room needs no more than the head, which does not come any more: there is nothing to read."""
    with Lab(3, latency="500us", rate="4Mbit") as lab:
        job = Job(lab, mpi, launch, tmp_path, room, program="head.py", TUTTI_P2P="1")
        job.wait_for(["ready"], 60)
        time.sleep(0.15)
        lab.cut("n1")
        told = job.wait_for(["0", "2"], PATIENCE_S)
        job.end()
    assert all(text.startswith("told ") for text in told), told


@pytest.mark.timeout(150)
@pytest.mark.parametrize("arguments,extra", MESSAGES[1:4])
def test_messages_come_through_losses(mpi, launch, tmp_path, arguments, extra):
    with Lab(3, latency="200us", loss=0.01, seed=6) as lab:
        job = Job(lab, mpi, launch, tmp_path, *arguments, TUTTI_P2P="1", **extra)
        job.wait_for(["ready"], 60)
        time.sleep(3)
        assert not job.spoken(), job.spoken()
        job.end()


@pytest.mark.timeout(150)
def test_loss_is_no_error(mpi, launch, tmp_path):
    with Lab(3, latency="200us", loss=0.01, seed=5) as lab:
        job = Job(lab, mpi, launch, tmp_path)
        job.wait_for(["ready"], 60)
        time.sleep(3)
        assert not job.spoken(), job.spoken()
        assert sum(link["lost"] for link in lab.switch_counters()["links"]) > 0
        job.end()
