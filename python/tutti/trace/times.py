"""When each call began and ended. The recorder reads the exact clock for calls that wait, and for others once in each tick of the
coarse clock; in between, calls of a thread lie in their order between two times that are exact."""

from __future__ import annotations

from typing import Any

from tutti.trace.recorders import Call, Rank

SHORT_NS = 1_000  # a call that does not wait takes about so long: it has spun, and not begun to wait
TICK_NS = 10_000_000  # longest of a coarse clock


def find_times(rank: Rank) -> None:
    """Fills in the rank's calls."""
    lanes: dict[int, list[dict[str, Any]]] = {}
    for event in rank.events:
        lanes.setdefault(event["lane"], []).append(event)
    for events in lanes.values():
        _find_bounds(events)
        rank.calls += _calls(rank.rank, events)


def _find_bounds(events: list[dict[str, Any]]) -> None:
    """Gives each event the `earliest` and `latest` time of its end: equal where the clock was read for it."""
    before: dict[str, Any] | None = None
    for event in events:
        follows = before is not None and event["count"] == before["count"] + 2
        event["exact"] = event["waited"] or follows and event["end"] != before["end"]
        before = event
    bound = 0  # the call behind had begun by then, or ended
    for event in reversed(events):
        event["earliest"], event["bound"] = event["end"], bound
        event["latest"] = event["end"] if event["exact"] else min(event["end"] + TICK_NS, bound or event["end"] + TICK_NS)
        if not event["finished"] or event["waited"]:
            bound = event["begin"]
        elif event["exact"]:
            bound = event["end"]


def _calls(rank: int, events: list[dict[str, Any]]) -> list[Call]:
    """Those whose end is not known exactly are spread over the time in which they ended."""
    calls: list[Call] = []
    last = 0  # end of the call before
    for place, event in enumerate(events):
        end = event["end"]
        if event["finished"] and not event["exact"]:
            end = max(end, last)
            end += _step(events, place, end)
        begin = event["begin"] or (end - SHORT_NS if event["finished"] else last)
        if event["finished"]:
            begin = min(max(begin, last), end)
            last = end
        calls.append(Call(rank, event["lane"], event["call"], begin, end, event["earliest"], event["latest"], event["waited"],
                          event["finished"], event))
    return calls


def _step(events: list[dict[str, Any]], place: int, now: int) -> int:
    """From `now` to the end of the call at `place`: the same for all that end before the next time that is known."""
    bound = events[place]["bound"]
    if not bound:
        return SHORT_NS
    behind = next((number for number, event in enumerate(events[place:]) if event["exact"] or event["bound"] != bound),
                  len(events) - place)
    return max(0, min(bound, events[place]["latest"]) - now) // (behind + 1)
