"""`tutti bench coll --lab`: the peers and tutti in a cluster in a box; `tutti tune --lab`: its network as a profile."""

import json
import subprocess
import sys

import pytest


def bench(tmp_path, mpi, latency):
    answer = subprocess.run(
        [sys.executable, "-m", "tutti", "bench", "coll", "--mpi", f"{mpi.name}={mpi.prefix}", "--np", "2", "--op",
         "barrier,allreduce", "--sizes", "4", "--rounds", "1", "--lab", "2", "--latency", latency,
         "--rate", "1Gbit", "--json", "rows.json"], capture_output=True, text=True, timeout=110, cwd=tmp_path,
        check=False)
    assert answer.returncode == 0, answer.stderr
    assert "in a lab of 2 nodes" in answer.stderr
    return json.loads((tmp_path / "rows.json").read_text())


def test_rows_of_a_lab_and_that_they_are_the_networks(mpi, tmp_path):
    """What takes two messages at once takes one latency, and twice as long at twice the latency."""
    short, long = bench(tmp_path, mpi, "2ms"), bench(tmp_path, mpi, "4ms")
    assert {(row["op"], row["tutti"]) for row in short} == {
        (op, tutti) for op in ("barrier", "allreduce") for tutti in (False, True)}
    for row, other in zip(short, long, strict=True):
        assert row["nodes"] == 2 and row["np"] == 2 and row["latency"] == "2ms" and row["rate"] == "1Gbit"
        assert row["us"] >= 2000, "faster than the network"
        assert 1.4 < other["us"] / row["us"] < 2.6, (row, other)


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_network_is_measured(mpi, tmp_path):
    """The profile has the latency and the rate that the lab was given, as far as its processors allow."""
    answer = subprocess.run(
        [sys.executable, "-m", "tutti", "tune", "lab.toml", "--lab", "2", "--latency", "5ms", "--rate", "100Mbit", "--mpi",
         f"{mpi.name}={mpi.prefix}", "--rounds", "1"], capture_output=True, text=True, timeout=170, cwd=tmp_path, check=False)
    assert answer.returncode == 0, answer.stderr
    lines = (tmp_path / "lab.toml").read_text().splitlines()
    terms = {name: float(line.split("=")[1]) for line in lines for name in ("L", "G_per_byte") if line.startswith(name + " ")}
    assert 4000 < terms["L"] < 10000, terms
    assert 0.06 < terms["G_per_byte"] < 0.2, terms
