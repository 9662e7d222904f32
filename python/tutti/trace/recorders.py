"""The flight recorders of a job's ranks: of one that runs, out of its memory, or out of the files that were written of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti import native
from tutti.errors import Failure, UserError
from tutti.where import processes
from tutti.where.sites import Sites, parse_maps

SUFFIX = ".calls"


@dataclass
class Call:
    """A call of a rank. Times in ns of its node's clock."""

    rank: int
    lane: int
    name: str
    begin: int  # not known better than from `earliest` on
    end: int
    earliest: int  # it ended between these
    latest: int
    waited: bool  # both times are exact
    finished: bool
    more: dict[str, Any]  # as the recorder has it

    @property
    def exact(self) -> bool:
        return self.earliest == self.latest


@dataclass
class Rank:
    rank: int
    node: str
    clock: int  # equal where the clocks are the same
    offset_to_realtime: int  # ns
    events: list[dict[str, Any]]
    calls: list[Call] = field(default_factory=list)


@dataclass
class Job:
    name: str
    program: str
    size: int
    ranks: list[Rank]


def of_files(paths: list[Path]) -> Job:
    """Of the files, and of those in the folders among them."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*" + SUFFIX)) if path.is_dir() else [path]
        if not found:
            raise UserError(f"{path} has no file *{SUFFIX} in it, as TUTTI_RECORDER_DIR gets them")
        files += found
    return _job([_read(file) for file in files])


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = native.core().recorded_in_file(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if isinstance(raw, str):
        raise UserError(f"{path}: {raw}")
    maps = parse_maps(raw["maps"].decode(errors="replace")) or _program_only(raw)
    sites = Sites()
    for event in raw["events"]:
        event["site"] = sites.in_modules(maps, "/", event["site"])
    return raw


def _program_only(raw: dict[str, Any]) -> list[tuple[int, int, int, str]]:
    """What is known of a process that had ended already."""
    return [(raw["program_begin"], raw["program_end"], raw["program_begin"], raw["program"])]


def of_job(wanted: str | None) -> Job:
    """Of a job that runs on this machine: its name or the number of a process of it; the only one without."""
    segments, sites = processes.segments(), Sites()
    jobs: dict[str, list[dict[str, Any]]] = {}
    for raw in native.core().recorded_in_segments(segments.paths):
        jobs.setdefault(raw["job"], []).append(raw)
        raw["pid"] = segments.process_here(raw["processes"], raw["pid"])
    chosen = [ranks for name, ranks in jobs.items() if wanted is None or name == wanted or _has_process(ranks, wanted)]
    if not chosen:
        raise Failure("no job of yours runs with tutti on this machine" if wanted is None else
                      f"'{wanted}' is neither a file, nor a job with tutti on this machine, nor a process of one")
    if len(chosen) > 1:
        raise UserError(f"several jobs run on this machine: say which ({', '.join(sorted(jobs))})")
    for raw in chosen[0]:
        modules = sites.modules_of(raw["pid"]) if raw["pid"] else _program_only(raw)
        for event in raw["events"]:
            event["site"] = sites.in_modules(modules, f"/proc/{raw['pid']}/root" if raw["pid"] else "/", event["site"])
    return _job(chosen[0])


def _has_process(ranks: list[dict[str, Any]], wanted: str) -> bool:
    return wanted.isdigit() and any(int(wanted) in processes.ancestors(raw["pid"]) for raw in ranks if raw["pid"])


def _job(raws: list[dict[str, Any]]) -> Job:
    names = sorted({raw["job"] for raw in raws})
    if len(names) > 1:
        raise UserError(f"these are of several jobs ({', '.join(names)}): name the files of one")
    if any(raw["other_version"] for raw in raws):
        raise UserError("the job ran with another version of tutti, whose calls have other numbers: use its `tutti trace`")
    raws.sort(key=lambda raw: raw["rank"])
    for one, next_one in zip(raws, raws[1:], strict=False):
        if one["rank"] == next_one["rank"]:
            raise UserError(f"rank {one['rank']} is there twice")
    if not any(raw["events"] for raw in raws):
        raise Failure("no call was recorded: TUTTI_RECORDER is off, or none has been made")
    ranks = [Rank(raw["rank"], raw["node"], raw["clock"], raw["realtime"] - raw["monotonic"], raw["events"]) for raw in raws]
    return Job(names[0], raws[0]["program"], raws[0]["size"], ranks)
