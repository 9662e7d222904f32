"""One clock for all nodes. What ranks of two nodes know of each other's clocks are the collectives in which nobody can be done
before everybody has come: those of one node have ended behind the last beginning on the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tutti.trace.recorders import Job
from tutti.trace.times import SHORT_NS

MEET = {"MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter_block"}


@dataclass
class Meeting:
    """What one clock's ranks have of a collective."""

    last_begin: int
    first_end: int


@dataclass
class Clocks:
    """What is to be added to the times of each clock, and how far that may be wrong, where it is known."""

    offsets: dict[int, int]
    uncertainty_ns: int | None


def _meetings(job: Job) -> dict[int, dict[tuple[int, int, str], Meeting]]:
    found: dict[int, dict[tuple[int, int, str], Meeting]] = defaultdict(dict)
    for rank in job.ranks:
        for call in rank.calls:
            number = call.more["number"]
            meets = call.name in MEET and call.more["id"] and number and (call.name == "MPI_Barrier" or call.more["bytes"])
            if not meets or not call.exact or not call.finished or call.more["waits_in"]:
                continue
            begin = call.begin if call.waited else call.end - SHORT_NS
            meeting = found[rank.clock].setdefault((call.more["id"], number, call.name), Meeting(begin, call.end))
            meeting.last_begin = max(meeting.last_begin, begin)
            meeting.first_end = min(meeting.first_end, call.end)
    return found


def _between(one: dict[tuple[int, int, str], Meeting], other: dict[tuple[int, int, str], Meeting]) -> tuple[int, int] | None:
    """What is to be added to the other's times to have the one's: the middle, and half of the room. None: they have not met."""
    common = one.keys() & other.keys()
    if not common:
        return None
    least = max(one[key].last_begin - other[key].first_end for key in common)
    most = min(one[key].first_end - other[key].last_begin for key in common)
    return (least + most) // 2, abs(most - least) // 2  # clocks that drift apart leave no room: then it is as far beside


def align(job: Job) -> Clocks:
    """Gives all calls times of one clock: by way of clocks that are known already, the nearest first; by the time of day where
    ranks have never met."""
    meetings = _meetings(job)
    day = {rank.clock: rank.offset_to_realtime for rank in job.ranks}
    reference = job.ranks[0].clock
    offsets, uncertainty, guessed = {reference: 0}, {reference: 0}, False
    while len(offsets) < len(day):
        found = [(room + uncertainty[known], known, clock, middle) for known in offsets for clock in day if clock not in offsets
                 for middle, room in [_between(meetings[known], meetings[clock]) or (0, None)] if room is not None]
        if found:
            room, known, clock, middle = min(found)
            offsets[clock], uncertainty[clock] = offsets[known] + middle, room
            continue
        clock = next(clock for clock in day if clock not in offsets)
        offsets[clock], uncertainty[clock], guessed = day[clock] - day[reference], 0, True
    _move(job, offsets)
    return Clocks(offsets, None if guessed else max(uncertainty.values()))


def _move(job: Job, offsets: dict[int, int]) -> None:
    for rank in job.ranks:
        offset = offsets[rank.clock]
        for call in rank.calls:
            call.begin, call.end = call.begin + offset, call.end + offset
            call.earliest, call.latest = call.earliest + offset, call.latest + offset
