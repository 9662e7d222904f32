"""Ranks as they are seen at one moment by a process of their machine: by this one, or by an agent on another machine."""

from __future__ import annotations

import base64
import socket
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tutti import native
from tutti.where import processes
from tutti.where.sites import Sites


@dataclass(frozen=True)
class Rank:
    """One that has a record."""

    job: str
    rank: int
    size: int  # of its job
    pid: int  # on its machine
    process: str  # as in /proc/PID/stat there
    record: bytes  # a copy of it
    sites: dict[int, str]  # where the calls come from that its threads are in; other places are asked for


@dataclass(frozen=True)
class Look:
    """What one look at a machine has shown."""

    machine: str
    now: int  # CLOCK_MONOTONIC there, ns
    ranks: list[Rank]
    lists: dict[str, processes.NodeList]
    # site(pid, process, address): where a call comes from, of a process there.
    site: Callable[[int, str, int], str]


@dataclass
class Here:
    """This machine. Of other users' ranks nothing is seen."""

    sites: Sites

    def look(self) -> Look:
        found = processes.segments()
        self.sites.forget_processes()
        ranks = [self._rank(raw) for raw in native.core().copy_records(found.paths, found.process_here)]
        return Look(socket.gethostname(), time.clock_gettime_ns(time.CLOCK_MONOTONIC), ranks, found.lists, self.sites.text)

    def _rank(self, raw: dict[str, Any]) -> Rank:
        pid, process = raw["pid"], raw["process"]
        texts = {address: self.sites.text(pid, process, address) for address in raw["sites"]}
        return Rank(raw["job"], raw["rank"], raw["size"], pid, process, raw["record"], texts)


def to_json(look: Look, job: str | None) -> dict[str, Any]:
    """What an agent says of a look: of one job, or of all."""
    ranks = [{"job": rank.job, "rank": rank.rank, "size": rank.size, "pid": rank.pid, "process": rank.process,
              "record": base64.b64encode(zlib.compress(rank.record)).decode(), "sites": list(rank.sites.items())}
             for rank in look.ranks if job is None or rank.job == job]
    return {"machine": look.machine, "now": look.now, "ranks": ranks}


def from_json(answer: dict[str, Any], site: Callable[[int, str, int], str]) -> Look:
    """The opposite. Raises KeyError, TypeError, ValueError or zlib.error for what is no such answer."""
    ranks = [Rank(raw["job"], int(raw["rank"]), int(raw["size"]), int(raw["pid"]), raw["process"],
                  zlib.decompress(base64.b64decode(raw["record"])), {int(address): text for address, text in raw["sites"]})
             for raw in answer["ranks"]]
    return Look(str(answer["machine"]), int(answer["now"]), ranks, {}, site)
