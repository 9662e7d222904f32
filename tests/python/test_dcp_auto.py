"""`tutti run --dcp auto:FILE`: which ratio it takes, and when it takes none."""

from __future__ import annotations

import json
import sys

import pytest
from tutti.errors import UserError
from tutti.launch import options
from tutti.launch.automatic import Cost, Machine, Mix, decide, load, overlapped, read_mix, resolve, save, time_with
from tutti.launch.dcp import Measured

MANY = Cost(8, Measured("1:2", 2, 4, 10.0, 1.0))
FEW = Cost(8, Measured("1:4", 1, 4, 60.0, 1.0))
# 10,000 collectives of 8 bytes, with 30 us of computation each, in which nothing happens without helpers.
SMALL = Mix(ranks=4, whole=1.0, calls=10_000, most_bytes=8, starts=0.1, waits=0.6, other=0.0)


def profile(tmp_path, rows, **more):
    path = tmp_path / "app.json"
    path.write_text(json.dumps({"ranks": 2, "seconds": 2.0, "rows": rows, **more}))
    return path


def row(call, calls, size, seconds, algorithm="flat"):
    return {"call": call, "algorithm": algorithm, "tutti": True, "ranks": 2, "calls": calls, "bytes": size, "seconds": seconds}


def test_the_mix_of_a_profile(tmp_path):
    path = profile(tmp_path, [row("MPI_Iallreduce", 2000, 16000, 0.1), row("MPI_Ibcast", 20, 20480, 0.01),
                              row("MPI_Allreduce", 10, 80, 0.2), row("MPI_Igatherv", 4, 32, 0.3)],
                   waits=[{"call": "MPI_Wait", "site": "app+0x1", "ranks": 2, "calls": 4, "seconds": 0.5, "seconds_all": 0.8}])
    mix = read_mix(path)
    assert mix == Mix(2, 2.0, 1010.0, 1024, pytest.approx(0.11), 0.5, 0.2)
    assert mix.computation == pytest.approx(2.0 - 0.11 - 0.5 - 0.2)
    assert mix.overlap_us == pytest.approx(mix.computation / 1010 * 1e6)


def test_a_profile_with_helpers_does_not_tell(tmp_path):
    with pytest.raises(UserError, match="without them"):
        read_mix(profile(tmp_path, [row("MPI_Iallreduce", 2000, 16000, 0.1, "dcp")]))


@pytest.mark.parametrize("more", [{"ranks": 0}, {"seconds": 0}])
def test_a_profile_of_nothing(tmp_path, more):
    with pytest.raises(UserError, match="is not a profile"):
        read_mix(profile(tmp_path, [row("MPI_Iallreduce", 2, 16, 0.1)], **more))


@pytest.mark.parametrize("call,yes", [("MPI_Iallreduce", True), ("MPI_Allreduce_init", True), ("MPI_Ibarrier", True),
                                      ("MPI_Allreduce", False), ("MPI_Igather", False), ("MPI_Isend", False)])
def test_what_is_overlapped(call, yes):
    assert overlapped(call) is yes


def test_the_ratio_that_is_faster_where_there_are_processors():
    found = decide(SMALL, [FEW, MANY], Machine(processors=8, ranks=4, from_job=False))
    # 0.3 s of computation; 1 us of overhead, or what 60 us are more than 30.
    assert found.ratio == "1:2"
    assert time_with(SMALL, MANY.measured, Machine(8, 4, False)) == pytest.approx(0.3 + 0.01)
    assert time_with(SMALL, FEW.measured, Machine(8, 4, False)) == pytest.approx(0.3 + 0.3)
    assert "69 % faster" in found.why.replace("%", " %") and "30 us to hide each behind" in found.why


def test_none_where_helpers_share_processors():
    # Each of 10,000 collectives takes 60 us of one of two processors that the program needs; 10 us of two.
    assert time_with(SMALL, FEW.measured, Machine(2, 4, False)) == pytest.approx(0.3 + 0.3 + 0.3)
    busy = Mix(4, 1.0, 10_000, 8, 0.02, 0.03, 0.0)
    found = decide(busy, [FEW, MANY], Machine(2, 4, False))
    assert found.ratio is None and "the best of 1:4, 1:2 would cost" in found.why, found


def test_processors_of_the_job_cost_computation():
    computing = Mix(4, 1.0, 1000, 8, 0.01, 0.05, 0.0)
    # One of four ranks computes no more: 4/3 of the time.
    assert time_with(computing, FEW.measured, Machine(4, 4, True)) == pytest.approx(0.94 * 4 / 3 + 0.001)
    assert decide(computing, [FEW], Machine(4, 4, True)).ratio is None
    # With more ranks than processors their number makes no difference.
    assert time_with(computing, FEW.measured, Machine(2, 4, True)) == pytest.approx(0.94 + 0.001)
    assert decide(computing, [FEW], Machine(2, 4, True)).ratio == "1:4"


def test_none_where_nothing_is_overlapped():
    found = decide(Mix(4, 1.0, 0, 0, 0.0, 0.0, 0.9), [FEW], Machine(8, 4, False))
    assert found.ratio is None and "no non-blocking" in found.why


def test_the_costs_of_the_next_larger_size_count():
    large = Cost(1024, Measured("1:2", 2, 4, 500.0, 400.0))
    mix = Mix(4, 1.0, 1000, 16, 0.1, 0.3, 0.0)
    assert decide(mix, [MANY, large], Machine(8, 4, False)).ratio == decide(mix, [large], Machine(8, 4, False)).ratio
    assert decide(mix, [MANY], Machine(8, 4, False)).ratio == "1:2"


def test_the_file(tmp_path):
    save(tmp_path / "app", SMALL, [FEW, MANY])
    assert load(tmp_path / "app") == (SMALL, [FEW, MANY])
    (tmp_path / "other").write_text('{"format": 2}')
    for name, message in (("other", "is not what"), ("missing", "cannot read")):
        with pytest.raises(UserError, match=message):
            load(tmp_path / name)


@pytest.mark.parametrize("wanted", ["auto", "auto:"])
def test_a_file_is_wanted(wanted):
    with pytest.raises(UserError, match="wants a file"):
        resolve(wanted, ["mpiexec", "-n", "4", "./app"], False)


@pytest.mark.parametrize("pays", [True, False])
def test_what_becomes_of_the_option(tmp_path, capsys, pays):
    # Whatever this machine's processors are: helpers of no latency pay, those of a second do not.
    latency = 0.0 if pays else 1e6
    save(tmp_path / "app", SMALL, [Cost(8, Measured("1:2", 2, 4, latency, latency))])
    made = options.settings_of(options.Options([sys.executable], dcp=f"auto:{tmp_path / 'app'}"))
    assert made == ({"TUTTI_DCP": "1:2"} if pays else {})
    said = capsys.readouterr().err
    assert said.startswith("tutti: --dcp auto: --dcp 1:2: at most" if pays else
                           "tutti: --dcp auto: no dedicated processors: the best of 1:2 would cost"), said
