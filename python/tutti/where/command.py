"""`tutti where`: a table of what every rank of a job is doing, on all its machines, and what does not fit together."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Annotated, Any, Optional

import typer

from tutti.errors import Failure, UserError
from tutti.where import processes
from tutti.where.machines import Machines
from tutti.where.ranks import Here, Look
from tutti.where.rolls import look
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
    here: Annotated[bool, typer.Option("--here", help="Show only this machine, also where the job has ranks on others.")] = False,
    nodes: Annotated[Optional[str], typer.Option(
        "--nodes", metavar="LIST", help="Look at these machines, too (n1,n2): where no rank of the job is on this one.")] = None,
) -> None:
    """Show what the ranks of running jobs are doing, and who waits for whom. It stops and slows nothing."""
    if as_json and watch is not None:
        raise UserError("--json prints once; leave --watch away")
    if here and nodes is not None:
        raise UserError("--here and --nodes are opposites: leave one away")
    seen = Here(Sites(source=False)).look()
    name = _job(seen, job, elsewhere=nodes is not None)
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(one) for one in ([] if here else _others(seen, name, nodes, watch or 0))]
        while True:
            jobs = [one for one in look(source, others) if name in (None, one["job"])]
            if as_json:
                print(json.dumps(jobs, indent=2))
                return
            if not jobs:
                raise Failure(" ".join(["no job of yours runs with tutti on this machine", *_unseen(others)]))
            text = "\n".join(_text(one) for one in jobs)
            print((CLEAR if watch is not None and sys.stdout.isatty() else "") + text, flush=True)
            if watch is None:
                return
            time.sleep(watch)


def _job(seen: Look, wanted: str | None, elsewhere: bool) -> str | None:
    """The name of the job that is meant, None for all. `elsewhere`: it may be one of other machines only."""
    names = sorted({rank.job for rank in seen.ranks})
    if wanted is None and not names and not elsewhere:
        raise Failure("no job of yours runs with tutti on this machine")
    if wanted is None or wanted in names:
        return wanted
    if wanted.isdigit():
        for rank in seen.ranks:
            if int(wanted) in processes.ancestors(rank.pid):
                return rank.job
    if elsewhere:
        return wanted
    raise Failure(f"'{wanted}' is neither a job with tutti on this machine ({', '.join(names) or 'none'}) nor a process of one")


def _others(seen: Look, job: str | None, named: str | None, pause_s: float) -> list[Machines]:
    """The other machines: those that are named, or else for each job those that its ranks here know of."""
    if named is not None:
        environment = next((one.environment() for one in seen.lists.values()), dict(os.environ))
        return [Machines([name for name in named.split(",") if name], environment, job, pause_s)]
    others = []
    for name, found in sorted(seen.lists.items()):
        ranks = [rank for rank in seen.ranks if rank.job == name]
        if ranks and job in (None, name) and len(ranks) < ranks[0].size:
            machines = [machine for machine in found.machines if machine != seen.machine]
            others.append(Machines(machines, found.environment(), name, pause_s))
    return others


def _unseen(others: list[Machines]) -> list[str]:
    return [f"({name} is not seen: {why})" for machines in others for name, why in machines.problems().items()]


def _text(job: dict[str, Any]) -> str:
    seen, size, machines = len(job["ranks"]), job["size"], len({rank["machine"] for rank in job["ranks"]})
    there = "this machine" if machines == 1 else f"{machines} machines"
    ranks = f"{seen} of {size} ranks on {there}" if seen < size else f"{size} ranks" + (f" on {there}" if machines > 1 else "")
    other = "; another version of tutti, so calls have no names here" if job["other_version"] else ""
    unseen = "".join(f"  {name} is not seen: {why}\n" for name, why in job["not_seen"].items())
    return f"job {job['job']}: {job['program']}, {ranks}{other}\n{job['table']}{unseen}"
