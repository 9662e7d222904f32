"""The time line: when calls without a time of their own ended, and one clock for all nodes."""

from __future__ import annotations

import json
import random

from tutti.trace import chrome, clocks, picture, times
from tutti.trace.recorders import Job, Rank

MS = 1_000_000
START = 10_000 * MS


def event(count: int, end: int, *, begin: int = 0, waited: bool = False, finished: bool = True, **more) -> dict:
    """As the core gives it."""
    return {"lane": 0, "count": 2 * count - 1, "call": "MPI_Allreduce", "waits_in": "", "communicator": "MPI_COMM_WORLD",
            "id": 7, "number": count, "bytes": 8, "root": None, "operation": "sum of f64", "algorithm": "flat", "peer": None,
            "tag": None, "site": "app+0x10", "begin": begin, "end": end, "finished": finished, "waited": waited,
            "partner": 1 if waited else None, "partner_us": 0, **more}


def rank_of(events: list[dict], rank: int = 0, clock: int = 1, to_realtime: int = 0) -> Rank:
    made = Rank(rank, f"node{clock}", clock, to_realtime, events)
    times.find_times(made)
    return made


def test_calls_between_two_times_keep_their_order():
    # The third has the stamp of the second again, and so have two more; then one waits.
    rank = rank_of([event(1, 10 * MS), event(2, 14 * MS), event(3, 14 * MS), event(4, 14 * MS), event(5, 14 * MS),
                    event(6, 17 * MS, begin=16 * MS, waited=True)])
    calls = rank.calls
    assert [call.exact for call in calls] == [False, True, False, False, False, True]
    ends = [call.end for call in calls]
    assert ends == sorted(ends) and len(set(ends)) == len(ends)
    assert all(14 * MS < call.end < 16 * MS and call.latest == 16 * MS for call in calls[2:5])
    assert (calls[5].begin, calls[5].end) == (16 * MS, 17 * MS)
    assert all(one.end <= two.begin for one, two in zip(calls, calls[1:], strict=False))


def test_a_stamp_counts_as_the_calls_own_only_behind_the_call_before():
    # Between the two a call is missing, which may have read the clock.
    assert [call.exact for call in rank_of([event(1, 10 * MS), event(3, 14 * MS)]).calls] == [False, False]


def test_the_last_calls_are_not_spread_over_a_time_that_nobody_knows():
    calls = rank_of([event(1, 10 * MS), event(2, 14 * MS), event(3, 14 * MS)]).calls
    assert calls[2].end == 14 * MS + times.SHORT_NS


def test_a_call_that_has_not_ended():
    calls = rank_of([event(1, 10 * MS), event(2, 0, begin=12 * MS, finished=False)]).calls
    assert (calls[1].begin, calls[1].finished) == (12 * MS, False)
    assert calls[0].end <= 12 * MS


def job_of_two_clocks(offset: int, drift: float = 0.0, number: int = 200) -> Job:
    """Two ranks that meet: in turn each comes first and waits, and both leave some µs after the last has come."""
    draw = random.Random(7)
    events: list[list[dict]] = [[], []]
    now = START
    for count in range(1, number + 1):
        late = count % 2
        arrivals = [now, now]
        arrivals[late] += draw.randint(50_000, 90_000)
        end = max(arrivals)
        for rank in (0, 1):
            left = end + draw.randint(2_000, 6_000)
            local = [at + rank * (offset + round(drift * (at - START))) for at in (arrivals[rank], left)]
            events[rank].append(event(count, local[1], begin=local[0], waited=rank != late, call="MPI_Barrier"))
        now = end + 100_000
    return Job("j", "app", 2, [rank_of(events[0], 0, 1), rank_of(events[1], 1, 2, to_realtime=5)])


def test_clocks_are_aligned_by_collectives():
    for offset in (-3_000_000_000, 0, 123_456_789):
        job = job_of_two_clocks(offset)
        found = clocks.align(job)
        assert found.uncertainty_ns is not None and found.uncertainty_ns <= 5_000
        assert abs(found.offsets[2] + offset) <= 2 * found.uncertainty_ns
        for one, other in zip(job.ranks[0].calls, job.ranks[1].calls, strict=True):
            assert one.end + 10_000 >= other.begin and other.end + 10_000 >= one.begin


def test_clocks_that_drift_apart_are_told_as_uncertain():
    found = clocks.align(job_of_two_clocks(1_000_000, drift=0.005))
    assert found.uncertainty_ns is not None and found.uncertainty_ns > 50_000


def test_ranks_that_never_met_go_by_the_time_of_day():
    one = rank_of([event(1, 10 * MS, id=1)], 0, 1, to_realtime=100)
    other = rank_of([event(1, 10 * MS, id=2)], 1, 2, to_realtime=40)
    found = clocks.align(Job("j", "app", 2, [one, other]))
    assert found.offsets == {1: 0, 2: -60} and found.uncertainty_ns is None


def test_files_of_it_are_well_formed():
    job = job_of_two_clocks(0, number=20)
    job.ranks[0].calls[3].more["site"] = "a<b>&c"
    begin, end = START, job.ranks[0].calls[-1].end
    found = json.loads(json.dumps(chrome.trace(job, begin, end)))
    complete = [one for one in found["traceEvents"] if one["ph"] == "X"]
    assert len(complete) == 40 and all(one["ts"] >= 0 and one["dur"] >= 0 for one in complete)
    assert "a&lt;b&gt;&amp;c" in picture.picture(job, begin, end)
