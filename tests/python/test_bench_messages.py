"""`tutti bench p2p`, `tutti bench overlap` and `tutti bench progress`: what they accept, measure, write and reckon."""

import io
import json

import pytest
from rich.console import Console
from tutti.bench import peers, rounds
from tutti.bench.overlap import overlap_of
from tutti.errors import Failure

KEYS = {"bench", "op", "bytes", "np", "nodes", "mpi", "tutti", "us", "us_min", "us_max"}


@pytest.mark.parametrize("bench, option, value, expected", [
    ("p2p", "--op", "latency,bandwith", "bandwith"),
    ("p2p", "--sizes", "5", "multiples of 4"),
    ("p2p", "--mpi", "lam", "unknown MPI 'lam'"),
    ("p2p", "--latency", "500us", "--lab"),
    ("p2p", "--json", "/nowhere/rows.json", "/nowhere"),
    ("overlap", "--op", "isend,ireceive", "ireceive"),
    ("overlap", "--protocol", "read,push", "push"),
    ("overlap", "--fractions", "1,none", "none"),
    ("overlap", "--fractions", "0", "positive"),
    ("overlap", "--json", "/nowhere/rows.json", "/nowhere"),
    ("progress", "--bytes", "5", "multiples of 4"),
    ("progress", "--mpi", "lam", "unknown MPI 'lam'"),
])
def test_bad_input_is_one_clear_line(tutti, bench, option, value, expected):
    answer = tutti("bench", bench, option, value)
    assert answer.status == 2
    assert expected in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_rows_of_messages(tutti, mpi, cache, tmp_path):
    answer = tutti("bench", "p2p", "--mpi", f"{mpi.name}={mpi.prefix}", "--sizes", "8,64K", "--rounds", "1",
                   "--time-ms", "2", "--seed", "7", "--json", "rows.json", env=cache)
    assert answer.status == 0, answer.err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["op"], row["bytes"], row["tutti"]) for row in rows} == {
        (op, size, tutti) for tutti in (False, True)
        for op in ("latency", "late", "bandwidth", "rate", "exchange", "both") for size in (8, 65536)}
    for row in rows:
        assert row.keys() >= KEYS
        assert row["bench"] == "p2p" and row["np"] == 2 and row["mpi"] == mpi.name
        assert 0 < row["us_min"] <= row["us"] <= row["us_max"]
        assert row["messages_per_s"] == pytest.approx(1e6 / row["us"])


@pytest.mark.slow
def test_rows_of_overlap(tutti, mpi, cache, tmp_path):
    answer = tutti("bench", "overlap", "--mpi", f"{mpi.name}={mpi.prefix}", "--op", "isend,irecv,iallreduce", "--sizes",
                   "64K", "--rounds", "1", "--fractions", "0.5,1.25", "--json", "rows.json", env=cache)
    assert answer.status == 0, answer.err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["protocol"] for row in rows if row["tutti"]} == {"write", "read", "read_interrupt"}
    assert "native" in {row["protocol"] for row in rows if not row["tutti"]}
    assert {(row["op"], row["side"]) for row in rows} == {("isend", "sender"), ("irecv", "receiver"),
                                                         ("iallreduce", "all")}
    assert {row["fraction"] for row in rows} == {0.5, 1.25}
    for row in rows:
        assert row.keys() >= KEYS
        assert 0 <= row["overlap"] <= 1
        assert row["overlap"] == pytest.approx(overlap_of(row["comm_us"], row["compute_us"], row["us"]))


@pytest.mark.slow
def test_rows_of_progress(tutti, mpi, cache, tmp_path):
    answer = tutti("bench", "progress", "--mpi", f"{mpi.name}={mpi.prefix}", "--bytes", "1M", "--compute-ms", "2", "--rounds",
                   "1", "--json", "rows.json", env=cache)
    assert answer.status == 0, answer.err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["protocol"] for row in rows if row["tutti"]} == {"read", "read_interrupt"}
    for row in rows:
        assert row["interrupt_us"] == pytest.approx(row["computing_us"] - row["polled_us"])
        assert row["idle_us"] > 0 and row["pending_us"] > 0 and row["round_trip_us"] > 0
        if row["protocol"] == "native":
            assert row["idle_ratio"] == 1
        if row["protocol"] == "read_interrupt":  # nobody else would have moved the message
            assert row["pending_switches_mean"] > 0


def test_overlap_is_the_hidden_part_of_the_shorter():
    assert overlap_of(100, 100, 100) == 1
    assert overlap_of(100, 100, 200) == 0
    assert overlap_of(100, 200, 250) == 0.5
    assert overlap_of(200, 100, 250) == 0.5
    assert overlap_of(100, 100, 300) == 0
    assert overlap_of(100, 100, 90) == 1


@pytest.mark.parametrize("tutti, failures, starts", [(False, 1, 2), (False, 2, 2), (True, 1, 1)])
def test_a_peer_that_fails_by_itself_is_started_once_more(monkeypatch, tmp_path, tutti, failures, starts):
    started = []

    def measure(*_):
        started.append(1)
        if len(started) <= failures:
            raise Failure("it fell over")
        return [{"op": "latency"}]

    monkeypatch.setattr(rounds, "_measure", measure)
    said = io.StringIO()
    mpi = type("Mpi", (), {"product": "Some MPI"})()
    launch = rounds.Launch(mpi, 2, tutti, "native", peers.Settings())
    arguments = (None, launch, tmp_path, tmp_path, None, Console(file=said))
    if failures < starts:
        assert rounds._measure_patiently(*arguments) == [{"op": "latency"}]
        assert "it fell over" in said.getvalue() and "Some MPI, native: started once more" in said.getvalue()
    else:
        with pytest.raises(Failure, match="it fell over"):
            rounds._measure_patiently(*arguments)
    assert len(started) == starts
