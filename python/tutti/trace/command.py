"""`tutti trace`: the last calls of every rank of a job as one time line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from tutti.errors import UserError
from tutti.trace import chrome, clocks, picture, recorders, times


def command(
    what: Annotated[Optional[list[str]], typer.Argument(
        metavar="[JOB|PID|FILES]", help="A running job (its name in tutti where, or the number of one of its processes), or "
        "the files of a job, or folders of them (TUTTI_RECORDER_DIR). Default: the only job that runs.")] = None,
    output: Annotated[Optional[Path], typer.Option(
        "-o", "--output", metavar="NAME", help="Write NAME.json for Perfetto (ui.perfetto.dev) and NAME.svg. "
        "[default: tutti-JOB]", show_default=False)] = None,
    last: Annotated[Optional[float], typer.Option(
        "--last", min=0, metavar="SECONDS", help="Show only the last seconds.")] = None,
) -> None:
    """Draw the last calls of every rank as one time line, for Perfetto and as a picture."""
    job = load(what or [])
    aligned = clocks.align(job)
    begin, end = window(job, last)
    name = output if output is not None else Path(f"tutti-{job.name}")
    json_file, svg_file = name.with_name(name.name + ".json"), name.with_name(name.name + ".svg")
    try:
        json_file.write_text(json.dumps(chrome.trace(job, begin, end)))
        svg_file.write_text(picture.picture(job, begin, end))
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    print(summary(job, aligned, begin, end))
    print(f"  {json_file}: open it in https://ui.perfetto.dev\n  {svg_file}")


def load(what: list[str]) -> recorders.Job:
    """With the times of all calls, by the clock of each node."""
    files = [Path(one) for one in what if Path(one).exists()]
    if files and len(files) != len(what) or not files and len(what) > 1:
        missing = next(one for one in what if not Path(one).exists())
        raise UserError(f"there is no file {missing}")
    job = recorders.of_files(files) if files else recorders.of_job(what[0] if what else None)
    for rank in job.ranks:
        times.find_times(rank)
    return job


def window(job: recorders.Job, last: float | None) -> tuple[int, int]:
    """From when to when; leaves out the calls before."""
    calls = [call for rank in job.ranks for call in rank.calls]
    end = max(call.end if call.finished else call.begin for call in calls)
    if last is not None:
        for rank in job.ranks:
            rank.calls = [call for call in rank.calls if not call.finished or call.end >= end - last * 1e9]
        calls = [call for rank in job.ranks for call in rank.calls]
    return min(call.begin for call in calls), end


def summary(job: recorders.Job, aligned: clocks.Clocks, begin: int, end: int) -> str:
    """What there is, in a line or two."""
    calls = sum(len(rank.calls) for rank in job.ranks)
    text = (f"job {job.name}: {job.program}, {len(job.ranks)} of {job.size} ranks, {calls:,} calls in "
            f"{(end - begin) / 1e9:.3f} s")
    if len(aligned.offsets) == 1:
        return text
    room = aligned.uncertainty_ns
    known = (f"to {room / 1e3:.1f} µs by collectives in which all ranks meet" if room is not None else
             "by the time of day where their ranks have not met in a collective")
    return text + f"\n  the clocks of {len(aligned.offsets)} nodes are aligned {known}"
