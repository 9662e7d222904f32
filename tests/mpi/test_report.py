"""The report tells of everything: every collective of the standard that a program calls, in every form and on every
kind of communicator, served or not, and why not."""

from __future__ import annotations

import json

import mpis
import pytest

ALL = list(mpis.MPIS)
RANKS = 4

# MPI 4.1, chapter 6: between two groups too, but for the last two.
COLLECTIVES = ["Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall",
               "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter", "Scan", "Exscan"]
# MPI 4.1, chapter 8.
NEIGHBOURS = ["Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"]
ONE = "MPI (one rank)"
INTER = "MPI (intercommunicator)"


def forms(name: str, persistent: bool) -> list[str]:
    return [f"MPI_{name}", f"MPI_I{name[0].lower()}{name[1:]}", *([f"MPI_{name}_init"] if persistent else [])]


def run(program, mpi_name: str, tmp_path, settings: dict[str, str]) -> tuple[mpis.Result, list[dict]]:
    mpi = mpis.MPIS[mpi_name]
    path = tmp_path / "report.json"
    result = mpis.start(mpi, RANKS, [program(mpi, "everything.c")], True,
                        {"TUTTI_REPORT": "1", "TUTTI_REPORT_JSON": str(path), **settings})
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]
    return result, json.loads(path.read_text())["rows"]


def calls_of(rows: list[dict], call: str, reason: str) -> int:
    return sum(row["calls"] for row in rows if row["call"] == call and row["algorithm"] == reason)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("messages", ["0", "1"])
@pytest.mark.parametrize("mpi", ALL)
def test_every_collective(program, libraries, tmp_path, mpi, messages):
    result, rows = run(program, mpi, tmp_path, {"TUTTI_P2P": messages})
    persistent = mpi != "openmpi-debian"  # MPI 3.1
    for name in [*COLLECTIVES, *NEIGHBOURS]:
        for call in forms(name, persistent):
            twice = 1 if name == "Barrier" else 2  # the others have a large form
            on_world = 2 if name in NEIGHBOURS else 1  # a ring, and a graph
            on_one = 1 if name in NEIGHBOURS else 2    # MPI_COMM_SELF, and one that was split off
            assert calls_of(rows, call, ONE) == RANKS * on_one * twice, (call, ONE)
            taken = [row for row in rows if row["call"] == call and row["tutti"]]
            assert sum(row["calls"] for row in taken) >= RANKS * on_world * twice, call
            between = name in COLLECTIVES[:-2] and not (call.endswith("_init") and mpi.startswith("openmpi"))
            assert calls_of(rows, call, INTER) == (RANKS * twice if between else 0), (call, INTER)
    # The table says the same.
    printed = result.rows()
    for row in rows:
        assert printed[row["call"], row["algorithm"]] == row["calls"], row


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_bytes_times_and_windows(program, libraries, tmp_path, mpi):
    _, rows = run(program, mpi, tmp_path, {})
    found = {(row["call"], row["algorithm"]): row for row in rows}
    # What a rank sends, where each knows but its own counts: to everybody; the root's own to itself.
    sent = {row["call"]: row["bytes"] for row in rows if row["tutti"]}
    # The plain form and the large one; on a ring to two neighbours, and on a graph to one.
    assert sent["MPI_Neighbor_allgather"] == RANKS * 2 * (2 + 1) * 4
    assert sent["MPI_Alltoallv"] == RANKS * RANKS * 2 * 4
    assert sent["MPI_Gatherv"] == RANKS * 2 * 4
    assert sent["MPI_Scatterv"] == RANKS * 2 * 4
    assert all(row["seconds"] > 0 for row in rows if row["algorithm"] == "MPI (one-sided)")
    # What an MPI does inside its own calls (Open MPI's windows run collectives) is not the program's.
    # The large forms of those that make windows are counted as what they are.
    for call, calls in {"MPI_Win_create": 2, "MPI_Win_allocate": 1, "MPI_Win_allocate_shared": 1, "MPI_Win_fence": 1,
                        "MPI_Win_free": 4}.items():
        assert found[call, "MPI (one-sided)"]["calls"] == RANKS * calls, call


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("mpi", ALL)
def test_a_world_of_one_rank(program, libraries, tmp_path, mpi, ranks):
    """Its calls are named so, and no others are."""
    description = mpis.MPIS[mpi]
    result = mpis.start(description, ranks, [program(description, "reductions.c"), "0"], True, {"TUTTI_REPORT": "1"})
    assert result.status == 0, result.text[-3000:]
    reasons = {algorithm for call, algorithm in result.rows() if call == "MPI_Allreduce"}
    assert (ONE in reasons) == (ranks == 1), result.text[-3000:]
    assert ranks > 1 or reasons == {ONE}, result.text[-3000:]
