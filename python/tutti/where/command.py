"""`tutti where`: a table of what every rank of this machine's jobs is doing, and what does not fit together."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Any, Optional

import typer

from tutti import native
from tutti.errors import Failure, UserError
from tutti.where import processes
from tutti.where.sites import Sites

CLEAR = "\x1b[H\x1b[2J"


def command(
    job: Annotated[Optional[str], typer.Argument(
        metavar="[JOB|PID]", help="One job: its name in the table, or the process number of a rank or of the launcher. "
        "Default: all jobs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    watch: Annotated[Optional[float], typer.Option(
        "--watch", min=0.1, metavar="SECONDS", help="Show it again and again, until interrupted.")] = None,
    source: Annotated[bool, typer.Option("--source/--no-source", help="Show source lines, found by addr2line.")] = True,
) -> None:
    """Show what the ranks of running jobs are doing, and who waits for whom. It stops and slows nothing."""
    if as_json and watch is not None:
        raise UserError("--json prints once; leave --watch away")
    while True:
        jobs = _chosen(look(source), job)
        if as_json:
            print(json.dumps(jobs, indent=2))
            return
        text = "\n".join(_text(one) for one in jobs)
        print((CLEAR if watch is not None and sys.stdout.isatty() else "") + text, flush=True)
        if watch is None:
            return
        time.sleep(watch)


def look(source: bool = True) -> list[dict[str, Any]]:
    """The jobs on this machine that this user may see, each with the ranks on this machine."""
    segments, sites = processes.segments(), Sites(source=source)
    return native.core().call_rolls(segments.paths, segments.process_here, sites.text,
                                    time.clock_gettime_ns(time.CLOCK_MONOTONIC))


def _chosen(jobs: list[dict[str, Any]], wanted: str | None) -> list[dict[str, Any]]:
    if wanted is None:
        if not jobs:
            raise Failure("no job of yours runs with tutti on this machine")
        return jobs
    chosen = [one for one in jobs if one["job"] == wanted or _has_process(one, wanted)]
    if not chosen:
        names = ", ".join(one["job"] for one in jobs) or "none"
        raise Failure(f"'{wanted}' is neither a job with tutti on this machine ({names}) nor a process of one")
    return chosen


def _has_process(job: dict[str, Any], wanted: str) -> bool:
    if not wanted.isdigit():
        return False
    return any(int(wanted) in processes.ancestors(rank["pid"]) for rank in job["ranks"])


def _text(job: dict[str, Any]) -> str:
    seen, size = len(job["ranks"]), job["size"]
    here = f"{size} ranks" if seen == size else f"{seen} of {size} ranks on this machine"
    other = "; another version of tutti, so calls have no names here" if job["other_version"] else ""
    return f"job {job['job']}: {job['program']}, {here}{other}\n{job['table']}"
