"""The options of dedicated processors, the two rules for their ratio, and the break-even condition."""

from __future__ import annotations

import json

import pytest
from tutti.bench.dcp import computations, processors_of
from tutti.errors import UserError
from tutti.launch.dcp import (
    Application,
    Measured,
    break_even,
    fewest_for_overlap,
    lowest_latency,
    offloadable,
    options_of,
    read_profile,
)

# CDCP-2008, figure 10: 512 APPs, 8 bytes.
PAPER = [Measured("1:512", 1, 512, 3500.0, 1.6), Measured("1:32", 16, 512, 95.0, 1.6),
         Measured("1:8", 64, 512, 40.0, 1.6), Measured("1:4", 128, 512, 40.0, 1.6)]


@pytest.mark.parametrize("wanted", ["1", "2", "1:4", "10:80"])
def test_ratios(wanted):
    assert options_of(wanted, False) == {"TUTTI_DCP": wanted}


@pytest.mark.parametrize("wanted", ["", "0", "1:", ":4", "1:0", "a", "1:4:2", "-1", "1.5"])
def test_what_is_no_ratio(wanted):
    with pytest.raises(UserError, match="expected a number"):
        options_of(wanted, False)


def test_from_the_job_needs_a_number(monkeypatch):
    monkeypatch.delenv("TUTTI_DCP", raising=False)
    with pytest.raises(UserError, match="says how many"):
        options_of(None, True)
    assert options_of("1:4", True) == {"TUTTI_DCP": "1:4", "TUTTI_DCP_FROM_JOB": "1"}
    assert options_of(None, False) == {}


def test_how_many_a_ratio_gives():
    assert [processors_of(text, 8) for text in ("1", "3", "1:4", "1:8", "1:512", "1:3")] == [1, 3, 2, 1, 1, 3]


def test_the_papers_two_rules():
    assert lowest_latency(PAPER).dcps == 64
    assert fewest_for_overlap(PAPER, 95.0).dcps == 16
    assert fewest_for_overlap(PAPER, 94.9).dcps == 64
    assert fewest_for_overlap(PAPER, 39.0) is None


def test_break_even_is_an_inequality_of_two_times():
    quarter = Measured("1:4", 1, 4, 7.0, 0.5)
    # r = 1/4, c = 0.7: 1.25 * 8 + 0.7 * 2 = 11.4 s against 10 s.
    computing = break_even(Application(10.0, 2.0, 1000), quarter, 10.0)
    assert computing.with_dcps == pytest.approx(11.4)
    assert not computing.gains and not computing.published
    # 1.25 * 1 + 0.7 * 9 = 7.55 s; the paper: 9 > 0.25 / 0.3.
    talking = break_even(Application(10.0, 9.0, 1000), quarter, 10.0)
    assert talking.with_dcps == pytest.approx(7.55)
    assert talking.gains and talking.published


def test_overlap_hides_no_more_than_there_is():
    quarter = Measured("1:4", 1, 4, 7.0, 100.0)
    app = Application(10.0, 4.0, 1000, overlap_us=1e6)
    # Hidden but for the overhead: 1.25 * 6 + 1000 * 100 us.
    assert break_even(app, quarter, 10.0).with_dcps == pytest.approx(7.6)


def test_the_rules_differ_where_the_paper_forgets_the_gain():
    # The paper's 0.3 is a gain of its own machine; here the collective gets slower on a DCP.
    slow = Measured("1:2", 1, 2, 20.0, 0.1)
    found = break_even(Application(10.0, 8.0, 1000), slow, 10.0)
    assert found.published and not found.gains


def test_profiles(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"tutti": "0.1.0", "mpi": "x", "ranks": 2, "seconds": 10.0, "rows": [
        {"call": "MPI_Allreduce", "calls": 2000, "seconds": 2.0}, {"call": "MPI_Ibcast", "calls": 200, "seconds": 0.5},
        {"call": "MPI_Gatherv", "calls": 9, "seconds": 1.0}]}))
    app = read_profile(file, point=1.5)
    assert (app.whole, app.collectives, app.calls) == (10.0, 2.5, 1100)
    assert app.computation == pytest.approx(6.0)
    with pytest.raises(UserError, match="--point"):
        read_profile(file, point=9.0)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UserError, match="is not a profile"):
        read_profile(tmp_path / "other.json")
    with pytest.raises(UserError, match="cannot read"):
        read_profile(tmp_path / "missing.json")


def test_what_is_offloaded():
    assert all(offloadable(call) for call in ("MPI_Allreduce", "MPI_Iallreduce", "MPI_Barrier", "MPI_Allreduce_init",
                                              "MPI_Ialltoall", "MPI_Allreduce_c", "MPI_Reduce"))
    assert not any(offloadable(call) for call in ("MPI_Gather", "MPI_Allgatherv", "MPI_Reduce_scatter_block"))


def test_computations():
    assert computations("200,50") == [0.0, 50.0, 200.0]
    with pytest.raises(UserError, match="microseconds"):
        computations("a")
