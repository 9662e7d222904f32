"""The time line as JSON of the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

from typing import Any

from tutti.trace.recorders import Call, Job


def trace(job: Job, begin: int, end: int) -> dict[str, Any]:
    """A process for each rank, a thread for each of its threads. `begin`: what is time 0; `end`: of calls that have not ended."""
    events: list[dict[str, Any]] = []
    for rank in job.ranks:
        events.append(_meta("process_name", rank.rank, 0, {"name": f"rank {rank.rank} ({rank.node})"}))
        events.append(_meta("process_sort_index", rank.rank, 0, {"sort_index": rank.rank}))
        for lane in sorted({call.lane for call in rank.calls}):
            events.append(_meta("thread_name", rank.rank, lane, {"name": f"thread {lane}"}))
        events += [_event(call, begin, end) for call in rank.calls]
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"job": job.name, "program": job.program, "ranks": job.size}}


def _meta(name: str, rank: int, lane: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": rank, "tid": lane, "args": arguments}


def _event(call: Call, begin: int, end: int) -> dict[str, Any]:
    last = call.end if call.finished else max(end, call.begin)
    category = "message" if call.more["peer"] is not None else "collective" if call.more["number"] else "other"
    return {"name": call.name, "cat": category, "ph": "X", "ts": (call.begin - begin) / 1e3, "dur": (last - call.begin) / 1e3,
            "pid": call.rank, "tid": call.lane, "args": arguments(call)}


def arguments(call: Call) -> dict[str, Any]:
    """What is known of a call, with the names that people read."""
    more = call.more
    shown = {"communicator": more["communicator"], "number": more["number"], "bytes": more["bytes"], "root": more["root"],
             "operation": more["operation"], "algorithm": more["algorithm"], "peer": more["peer"], "tag": more["tag"],
             "waits in": more["waits_in"], "called at": more["site"]}
    if call.waited:
        shown["waited longest for"] = f"rank {more['partner']}" if more["partner"] is not None else "any rank"
        shown["of that, us"] = more["partner_us"]
    if not call.finished:
        shown["unfinished"] = True
    elif not call.exact:
        shown["ended within, us"] = (call.latest - call.earliest) / 1e3
    return {name: value for name, value in shown.items() if value is not None and value != ""}
