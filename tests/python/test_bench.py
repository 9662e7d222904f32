"""`tutti bench coll`: what it accepts, measures, writes and reckons."""

import json
import math
import os
import subprocess

import pytest
from conftest import ROOT
from rich.console import Console
from tutti.bench import neighbours, own, peers, program
from tutti.report import plot, table

KEYS = {"bench", "op", "bytes", "np", "nodes", "mpi", "tutti", "us", "us_min", "us_max"}


@pytest.mark.parametrize("option, value, expected", [
    ("--op", "bcast,broadcats", "broadcats"),
    ("--op", ",", "--op"),
    ("--sizes", "5", "multiples of 4"),
    ("--sizes", "4:", "multiples of 4"),
    ("--sizes", "1M:4", "empty"),
    ("--np", "0", "numbers of ranks"),
    ("--np", "two", "numbers of ranks"),
    ("--mpi", "lam", "unknown MPI 'lam'"),
    ("--mpi", "mpich=/nowhere", "no mpich in /nowhere"),
    ("--rounds", "0", "--rounds"),
    ("--latency", "500us", "--lab"),
    ("--lab", "0", "--lab"),
    ("--sync", "maybe", "none or barrier"),
    ("--against", "them", "peers or own"),
    ("--beside", "-1", "--beside"),
    ("--json", "/nowhere/rows.json", "/nowhere"),
    ("--plot", "rows.gif", ".png"),
    ("--also", "openmpi", "expected an MPI and its settings"),
    ("--also", "openmpi=", "expected an MPI and its settings"),
    ("--also", "mpich='-n", "No closing quotation"),
    ("--also", "lam=-bind-to core", "expected one of the MPIs to compare"),
])
def test_bad_input_is_one_clear_line(tutti, option, value, expected):
    answer = tutti("bench", "coll", option, value)
    assert answer.status == 2
    assert expected in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_rows(tutti, mpi, cache, tmp_path):
    answer = tutti("bench", "coll", "--mpi", f"{mpi.name}={mpi.prefix}", "--np", "2", "--op", "barrier,bcast,allreduce",
                   "--sizes", "4,16K", "--rounds", "1", "--time-ms", "2", "--seed", "7", "--json", "rows.json",
                   "--plot", "rows.png", env=cache)
    assert answer.status == 0, answer.err
    assert "seed 7" in answer.err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["op"], row["bytes"], row["tutti"]) for row in rows} == {
        (op, size, tutti) for tutti in (False, True)
        for op, size in [("barrier", 0), ("bcast", 4), ("bcast", 16384), ("allreduce", 4), ("allreduce", 16384)]}
    for row in rows:
        assert row.keys() >= KEYS
        assert row["bench"] == "coll" and row["np"] == 2 and row["nodes"] == 1 and row["mpi"] == mpi.name
        assert 0 < row["us_min"] <= row["us"] <= row["us_max"]
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")
    assert "geo. mean" in answer.out


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["none", "barrier"])
def test_every_collective_gives_right_results(tutti, mpi, cache, sync):
    """The benchmark program checks its results; a wrong one is an error."""
    answer = tutti("bench", "coll", "--mpi", f"{mpi.name}={mpi.prefix}", "--np", "3", "--op",
                   "barrier,bcast,reduce,allreduce,allgather,gather,scatter,alltoall,reduce_scatter_block,gatherv,scatterv,"
                   "alltoallv,alltoallv_sparse,alltoallw,neighbor_allgather,neighbor_allgatherv,neighbor_alltoall,"
                   "neighbor_alltoallv,ineighbor_alltoallw", "--sizes",
                   "4,1000,1028,64K", "--rounds", "1", "--time-ms", "0.5", "--sync", sync, env=cache)
    assert answer.status == 0, answer.err


def test_wrong_results_are_found(tmp_path, mpi, cache, monkeypatch):
    """An MPI that delivers garbage: the benchmark program with a broadcast that does nothing."""
    broken = tmp_path / "coll.c"
    text = (ROOT / "bench" / "coll.c").read_text()
    before = "/* The forms of a collective"
    assert before in text
    broken.write_text(text.replace(before, f"#define MPI_Bcast(...) (void)cell\n{before}"))
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    binary = program.compile_for(mpi, broken)
    settings = peers.best_settings(mpi, 2, 2)
    command = peers.command_line(mpi, 2, settings, [str(binary), "--ops", "bcast", "--sizes", "64", "--time-ms", "1",
                                                    "--out", str(tmp_path / "out")])
    answer = subprocess.run(command, env=peers.environment(mpi, settings), capture_output=True, text=True,
                            timeout=60, check=False)
    assert answer.returncode == 1
    assert "word 0 is" in answer.stderr


def row(op, size, mpi, tutti, us):
    return {"bench": "coll", "op": op, "bytes": size, "np": 2, "nodes": 1, "mpi": mpi, "tutti": tutti, "us": us,
            "us_min": us, "us_max": us}


def test_ratios_are_against_the_best_peer():
    rows = [row("bcast", 4, "mpich", False, 2.0), row("bcast", 4, "openmpi", False, 1.0),
            row("bcast", 4, "mpich", True, 0.5), row("bcast", 4, "openmpi", True, 4.0)]
    assert table.ratios(rows, 2) == {("bcast", 4): {"mpich": 2.0, "openmpi": 0.25}}
    assert table.best_peer(table.cells(rows, 2)["bcast", 4]) == ("openmpi", 1.0)


def test_the_plot_draws_the_fastest_of_several_settings():
    rows = [{"bytes": size, "us": us, "us_min": us - 1, "us_max": us + 1, "mpi": "openmpi", "tutti": tutti}
            for size, us, tutti in ((64, 5.0, False), (4, 3.0, False), (64, 4.0, False), (4, 9.0, False), (4, 1.0, True))]
    assert plot._fastest(rows, ("openmpi", False)) == [(4, 3.0, 2.0, 4.0), (64, 4.0, 3.0, 5.0)]
    assert plot._fastest(rows, ("openmpi", True)) == [(4, 1.0, 0.0, 2.0)]


def test_of_several_settings_of_a_peer_the_fastest_count():
    rows = [row("bcast", 4, "mpich", False, 2.0), row("bcast", 4, "mpich", True, 0.5), row("bcast", 4, "mpich", False, 3.0),
            row("bcast", 8, "mpich", False, 2.0), row("bcast", 8, "mpich", True, 0.5), row("bcast", 8, "mpich", False, 1.0)]
    assert table.ratios(rows, 2) == {("bcast", 4): {"mpich": 4.0}, ("bcast", 8): {"mpich": 2.0}}


def test_settings_are_variables_and_then_options():
    name, settings = peers.parse("mpich=A_1=x=y B='two words' -bind-to core C=D", "--also")
    assert name == "mpich"
    assert settings.environment == {"A_1": "x=y", "B": "two words"}
    assert settings.options == ("-bind-to", "core", "C=D")


def test_geometric_mean():
    assert math.isclose(table.geometric_mean([1.0, 4.0]), 2.0)
    assert math.isnan(table.geometric_mean([]))


def test_states_of_the_machine_cancel_in_the_fastest_rounds(capsys):
    """tutti was slow in most of its launches and the peer in none; the fastest of both say how they compare."""
    row = {"op": "bcast", "bytes": 4, "np": 2, "mpi": "mpich", "rounds": 3}
    rows = [{**row, "tutti": False, "us": 1.0, "us_min": 0.9}, {**row, "tutti": True, "us": 2.0, "us_min": 0.3}]
    table.show(rows, Console(width=160))
    shown = capsys.readouterr().out
    assert "best of tutti against best of the peers: 0.50" in shown
    assert "by the fastest round of each: 3.00 in geometric mean, lowest 3.00" in shown
    table.show([{**line, "rounds": 1} for line in rows], Console(width=160))
    assert "fastest" not in capsys.readouterr().out


# ---- --against own


def own_rows(alone: float, served: float, settings: str = "defaults", op: str = "bcast") -> list[dict]:
    return [{**row(op, 4, "mpich", tutti, us), "settings": settings} for tutti, us in ((False, alone), (True, served))]


def test_each_mpi_is_compared_with_itself_at_the_same_settings():
    """What another MPI, or the same one at other settings, takes says nothing."""
    rows = [*own_rows(1.0, 0.5), *own_rows(3.0, 2.0, "--fast"), row("bcast", 4, "openmpi", False, 0.1) | {"settings": "defaults"}]
    found = own.compare(rows)
    assert [(cell.group, cell.median, cell.fastest) for cell in found] == [
        ((2, "mpich", "defaults"), 2.0, 2.0), ((2, "mpich", "--fast"), 1.5, 1.5)]
    assert own.below(found) == []


@pytest.mark.parametrize("us, us_min, loses", [(1.0, 1.0, False), (1.02, 1.02, False), (1.05, 1.0, True), (1.0, 1.05, True)])
def test_a_loss_by_the_median_or_by_the_fastest_round(us, us_min, loses):
    rows = own_rows(1.0, 1.0)
    rows[1] |= {"us": us, "us_min": us_min}
    assert bool(own.below(own.compare(rows))) == loses


def test_what_stays_below_is_named(capsys):
    first = [*own_rows(1.0, 2.0, op="bcast"), *own_rows(1.0, 2.0, op="reduce"), *own_rows(4.0, 1.0, op="gather")]
    own.show(first, [*own_rows(1.0, 4.0, op="bcast"), *own_rows(1.0, 1.0, op="reduce")], Console(width=160))
    shown = capsys.readouterr().out
    assert "2 ranks, mpich (defaults), bcast 4: 1.00 us alone, 4.00 with tutti: 0.25 by the median, 0.25 by the fastest" in shown
    assert "reduce" not in shown and "1.00 in geometric mean; 1 of 3 cells below 0.97 in both measurements" in shown


def test_nothing_below_needs_no_second_measurement(capsys):
    own.show(own_rows(2.0, 1.0), [], Console(width=160))
    assert "2.00 in geometric mean; 0 of 1 cells below" in capsys.readouterr().out


@pytest.mark.timeout(600)  # a start for each cell: a minute by itself
@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--cold", "--beside", "1"]], ids=["warm", "cold"])
def test_against_itself(tutti, mpi, cache, tmp_path, more):
    answer = tutti("bench", "coll", "--mpi", f"{mpi.name}={mpi.prefix}", "--against", "own", "--op", "barrier,ibcast,allreduce_init",
                   "--sizes", "4,1K", "--rounds", "1", "--time-ms", "1", "--json", "rows.json", *more, env=cache,
                   timeout=500)
    assert answer.status == 0, answer.err
    rows = json.loads((tmp_path / "rows.json").read_text())
    first = [line for line in rows if not line.get("again")]
    cells = {("barrier", 0), ("ibcast", 4), ("ibcast", 1024), ("allreduce_init", 4), ("allreduce_init", 1024)}
    for settings in {line["settings"] for line in first}:
        assert {(line["op"], line["bytes"], line["tutti"]) for line in first if line["settings"] == settings} == {
            (op, size, tutti) for op, size in cells for tutti in (False, True)}
    assert all(line["iterations"] == 1000 for line in rows) or not more or more[0] != "--cold"
    again = own.compare(line for line in rows if line.get("again"))
    assert {(cell.group, cell.op, cell.bytes) for cell in again} == set(own.below(own.compare(first)))
    assert "cells below 0.97" in answer.out


def test_neighbours_end_with_the_benchmark():
    with neighbours.busy(2):
        children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=True)
        mine = [line.split()[0] for line in children.stdout.splitlines() if "getppid" in line]
        assert len(mine) == 2
    assert not any(os.path.exists(f"/proc/{number}") for number in mine)
