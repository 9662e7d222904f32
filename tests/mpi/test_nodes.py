"""Programs over several nodes: ranks of one machine that take each other as remote (TUTTI_NODE) and talk over
libfabric on the loopback."""

from __future__ import annotations

import random

import mpis
import pytest
from test_messages import LEAVING, SLOPPY, leave

NODE_OF_RANK = 'export TUTTI_NODE=n$(({rank} {operator} {number})); exec "$@"'
PLACEMENTS = {"apart": ("/", 1), "pairs": ("/", 2), "round": ("%", 2)}


def on_nodes(placement: str, command: list[str]) -> list[str]:
    operator, number = PLACEMENTS[placement]
    rank = "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"
    return ["sh", "-c", NODE_OF_RANK.format(rank=rank, operator=operator, number=number), "sh", *command]


def check(program, mpi_name: str, ranks: int, source: str, arguments: list[str], placement: str,
          **settings: str) -> mpis.Result:
    mpi = mpis.MPIS[mpi_name]
    command = on_nodes(placement, [program(mpi, source), *arguments, "served"])
    result = mpis.start(mpi, ranks, command, True, {"TUTTI_REPORT": "1", "TUTTI_NET": "on"} | settings)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    return result


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("mpi", list(mpis.MPIS))
def test_collectives(program, libraries, mpi, placement):
    result = check(program, mpi, 4, "collectives.c", ["20011"], placement)
    used = {algorithm for _, algorithm in result.rows()}
    between = {"apart": {"dissemination", "direct", "letters", "recursive_doubling"}}.get(placement, {"hierarchical"})
    assert between <= used, result.text[-3000:]
    # Which of the two depends on whether there is a processor for each rank.
    assert placement != "apart" or used & {"bruck", "exchange"}, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source,arguments", [("requests.c", ["0"]), ("reductions.c", ["0"]), ("communicators.c", ["20"]),
                                              ("threads.c", ["0"]), ("persistent.c", ["31"])])
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_program(program, libraries, mpi, source, arguments, placement):
    check(program, mpi, 3, source, arguments, placement)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source,ranks,arguments", [("vectors.c", 4, ["60"]), ("exchanges.c", 5, [])])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_counts_that_only_one_rank_knows(program, libraries, mpi, source, ranks, arguments, placement):
    seeds = [str(random.randrange(1, 10**6))] if arguments else []  # printed by the program
    result = check(program, mpi, ranks, source, [*seeds, *arguments], placement)
    used = {algorithm for call, algorithm in result.rows() if call.startswith("MPI_Alltoall") and call[-1] in "vw"}
    assert used == {"direct"}, result.text[-3000:]


LISTS = ("gatherv", "scatterv", "alltoallv", "alltoallw", "neighbor_alltoallv", "neighbor_alltoallw")


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source,ranks,arguments", [("vectors.c", 5, ["40"]), ("neighbours.c", 5, ["20"])])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_counts_by_the_leaders_of_nodes(program, libraries, mpi, source, ranks, arguments):
    seed = str(random.randrange(1, 10**6))  # printed by the program
    forced = ",".join(f"{name}=hierarchical" for name in LISTS)
    result = check(program, mpi, ranks, source, [seed, *arguments], "round", TUTTI_ALG=forced)
    assert "hierarchical" in {algorithm for _, algorithm in result.rows()}, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source,ranks,arguments", [("neighbours.c", 4, ["40"]), ("neighbours.c", 7, ["20"]), ("halo.c", 6, [])])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_neighbours(program, libraries, mpi, source, ranks, arguments, placement):
    seeds = [str(random.randrange(1, 10**6))] if arguments else []  # printed by the program
    result = check(program, mpi, ranks, source, [*seeds, *arguments], placement)
    used = {algorithm for call, algorithm in result.rows() if "eighbor_" in call}
    assert used == {"direct"}, result.text[-3000:]


MESSAGES = {"TUTTI_P2P": "1", "TUTTI_REPORT": "1", "TUTTI_NET": "on"}


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("source,argument", [("messages.c", "0"), ("progress.c", "0"), ("copies.c", "60"),
                                             ("first_probe.c", "300000"),
                                             *(("polling.c", str(way)) for way in (0, 2, 4, 5, 7, 11))])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi"))
def test_messages(program, libraries, mpi, source, argument, placement):
    """Messages between nodes and inside of them: what tests/mpi/test_messages.py runs on one."""
    description = mpis.MPIS[mpi]
    command = on_nodes(placement, [program(description, source), argument])
    result = mpis.start(description, 3, command, True, MESSAGES)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    assert any(call.lower().endswith("send") and not way.startswith("MPI (")
               for call, way in result.rows()), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("placement,protocol", [("apart", "read_interrupt"), ("pairs", "read_interrupt"), ("apart", "write")])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_traffic(program, libraries, mpi, placement, protocol):
    """Random messages on communicators of all kinds at once, tutti's and the MPI's. The seed is printed."""
    description = mpis.MPIS[mpi]
    command = on_nodes(placement, [program(description, "traffic.c"), "0", "10"])
    result = mpis.start(description, 3, command, True, MESSAGES | {"TUTTI_RENDEZVOUS": protocol})
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi"))
def test_small_messages_wake_nobody_who_computes(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    command = on_nodes("apart", [program(description, "interrupts.c")])
    result = mpis.start(description, 2, command, True, MESSAGES)
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("size", [8, 300000])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_leaving(program, libraries, mpi, size, placement):
    for case in [*LEAVING, *SLOPPY[:-1]]:
        leave(program, mpi, case, "world", size, {"TUTTI_NET": "on"}, lambda command: on_nodes(placement, command))


@pytest.mark.mpi
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("what", ["barrier", "bcast", "allreduce", "allgather", "alltoall"])
def test_killed_rank(program, libraries, tmp_path, what, placement):
    mpi = mpis.MPIS["openmpi"]
    command = on_nodes(placement, [program(mpi, "killed.c"), what, "100000", str(tmp_path)])
    command = mpis.outlived(command, tmp_path, 2)
    settings = {"TUTTI_NET_TIMEOUT": "5", "TUTTI_CHOICE": "static"}  # in a call that the MPI runs, only the MPI can notice
    result = mpis.start(mpi, 3, command, True, settings, limit_s=60)
    assert result.status not in (None, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "2"}, result.text


# Eager in one packet and in several, with a head, and each protocol of those that are announced.
LARGE = [("sendrecv", 100, "read_interrupt"), ("sendrecv", 100_000, "read_interrupt"), ("send", 1_000_000, "read_interrupt"),
         *(("isend", 1_000_000, protocol) for protocol in ("read_interrupt", "read", "write"))]


@pytest.mark.mpi
@pytest.mark.timeout(240)
@pytest.mark.parametrize("placement", ["apart", "pairs"])
@pytest.mark.parametrize("what,size,protocol", LARGE)
def test_killed_rank_that_sends(program, libraries, tmp_path, what, size, protocol, placement):
    """Between two messages, and in the middle of one: before any operation on the network or memory."""
    mpi = mpis.MPIS["openmpi"]
    settings = {"TUTTI_NET": "on", "TUTTI_NET_TIMEOUT": "5", "TUTTI_P2P": "1", "TUTTI_RENDEZVOUS": protocol}
    operations = random.sample(range(40, 240), 2)
    for number, fault in enumerate(["", *(f"kill:op=any:at={at}:rank=1" for at in operations)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = on_nodes(placement, [program(mpi, "killed.c"), what, f"{size}{'f' if fault else ''}", str(folder)])
        result = mpis.start(mpi, 3, mpis.outlived(command, folder, 2), True, settings | {"TUTTI_FAULT": fault}, limit_s=60)
        assert result.status not in (None, 0), f"{fault}\n{result.text}"
        assert {path.name for path in folder.iterdir()} == {"0", "2"}, f"{fault}\n{result.text}"


@pytest.mark.mpi
@pytest.mark.parametrize("what", ["bcast", "allreduce", "alltoall", "sendrecv", "isend"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_stopped_rank_lives(program, libraries, mpi, what):
    """Three times as long as a node may be silent: its machine still knows its process."""
    mpi = mpis.MPIS[mpi]
    command = on_nodes("apart", [program(mpi, "stopped.c"), "3", what])
    settings = {"TUTTI_NET": "on", "TUTTI_NET_TIMEOUT": "1", "TUTTI_REPORT": "1"}
    messages = {"TUTTI_P2P": "1"} if "send" in what else {}
    result = mpis.start(mpi, 3, command, True, settings | messages)
    assert result.status == 0, result.text[-3000:]
    assert "stopped: passed (0 failures)" in result.text
    assert (f"MPI_{what.capitalize()}", "MPI") not in result.rows()


@pytest.mark.mpi
@pytest.mark.parametrize("what", ["test", "receive", "iprobe"])
def test_a_rank_that_died_before_the_first_contact(program, libraries, tmp_path, what):
    """The port of its network refuses: nobody waits until TUTTI_NET_TIMEOUT has passed."""
    mpi = mpis.MPIS["openmpi"]
    settings = {"TUTTI_NET": "on", "TUTTI_NET_TIMEOUT": "60", "TUTTI_P2P": "1"}
    command = mpis.outlived(on_nodes("apart", [program(mpi, "polled.c"), what, str(tmp_path)]), tmp_path, 1)
    result = mpis.start(mpi, 2, command, True, settings, limit_s=30)
    assert result.status not in (None, 0)
    assert (tmp_path / "0").exists(), result.text
