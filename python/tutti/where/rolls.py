"""The roll call of jobs: what was seen of their ranks on all machines, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tutti import native
from tutti.errors import Failure
from tutti.where.machines import Machines
from tutti.where.ranks import Here, Look, Rank
from tutti.where.sites import Sites


@dataclass(frozen=True)
class _Seen:
    """What two looks have shown of a rank, the second one of which is `look`."""

    first: Rank
    second: Rank
    look: Look

    def row(self, now: int) -> dict[str, Any]:
        return {"first": self.first.record, "second": self.second.record, "pid": self.second.pid,
                "process": self.second.process, "ahead": now - self.look.now}

    def site(self, address: int) -> str:
        known = self.second.sites.get(address)
        return known if known is not None else self.look.site(self.second.pid, self.second.process, address)


def look(source: bool = True, others: Sequence[Machines] = ()) -> list[dict[str, Any]]:
    """The jobs that this user may see, on this machine and on the others. All machines are looked at twice, the second time
    when each has answered once: calls that were in progress both times were so together."""
    here = Here(Sites(source=source))
    first, second = ([here.look(), *(one for machines in others for one in machines.look())] for _ in range(2))
    now = second[0].now
    later = {(rank.job, rank.rank): (rank, one) for one in reversed(second) for rank in one.ranks}
    jobs: dict[str, dict[int, _Seen]] = {}
    for rank in (rank for one in first for rank in one.ranks):
        if (rank.job, rank.rank) in later:
            jobs.setdefault(rank.job, {})[rank.rank] = _Seen(rank, *later[rank.job, rank.rank])
    return [_roll(job, ranks, now, others) for job, ranks in sorted(jobs.items())]


def _roll(job: str, ranks: dict[int, _Seen], now: int, others: Sequence[Machines]) -> dict[str, Any]:
    try:
        roll = native.core().call_roll([seen.row(now) for seen in ranks.values()],
                                       lambda rank, address: ranks[rank].site(address), now)
    except ValueError as error:
        raise Failure(f"job {job}: {error}") from None
    for rank in roll["ranks"]:
        rank["machine"] = ranks[rank["rank"]].look.machine
    problems = {name: why for machines in others if machines.job in (None, job)
                for name, why in machines.problems().items()}
    return {"job": job, **roll, "not_seen": problems}
