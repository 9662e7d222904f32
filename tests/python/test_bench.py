"""`tutti bench coll`: what it accepts, measures, writes and reckons."""

import json
import math
import subprocess

import pytest
from conftest import ROOT
from rich.console import Console
from tutti.bench import peers, program
from tutti.report import table

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
    ("--json", "/nowhere/rows.json", "/nowhere"),
    ("--plot", "rows.gif", ".png"),
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
                   "barrier,bcast,reduce,allreduce,allgather,gather,scatter,alltoall,reduce_scatter_block", "--sizes",
                   "4,1000,1028,64K", "--rounds", "1", "--time-ms", "0.5", "--sync", sync, env=cache)
    assert answer.status == 0, answer.err


def test_wrong_results_are_found(tmp_path, mpi, cache, monkeypatch):
    """An MPI that delivers garbage: the benchmark program with a broadcast that does nothing."""
    broken = tmp_path / "coll.c"
    text = (ROOT / "bench" / "coll.c").read_text()
    call = "MPI_Bcast(cell->recv, N, MPI_UINT32_T, cell->root, cell->comm);"
    assert call in text
    broken.write_text(text.replace(call, "(void)cell;"))
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
