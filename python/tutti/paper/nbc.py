"""NBC, the library of nonblocking collectives that CDCP-2008 compares with: its allreduce moves on where the program looks at it
("the overhead of polling in the NBC scheme").

The paper says neither how often the program looks, nor what a look costs, nor what NBC adds to a packet. So each time between two
looks below is a reading of its own, and under each of them one cost is fitted, so that the overhead of 8 processes is the paper's
8.5 us: that of a look, with packets as dear as the blocking ones', or that of a packet, with looks for nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from tutti.sim import networks
from tutti.sim.run import Surroundings, simulate

EVERY_US = (2.0, 5.0, 10.0, 20.0)
FITTED_US = 8.5  # the lower bound of the overhead, 8 processes
HIDING, DEAREST_US = 1000.0, 32.0
MOST_US, STEP_US = 400, 4  # to find where the overhead reaches its lower bound


@dataclass(frozen=True)
class Job:
    """A blocking allreduce that is moved on by looks: its algorithm and profile, on nodes of `cores`."""

    algorithm: str
    profile: str
    processes: int
    cores: int
    every: float = 0.0
    look: float = 0.0


@dataclass(frozen=True)
class Fit:
    """A time between two looks, and the cost that is fitted under it. `apply` gives that to any job."""

    every: float
    what: str
    us: float

    def apply(self, job: Job) -> Job:
        return {"look": _with_look, "packet": _with_packet}[self.what](replace(job, every=self.every), self.us)


def _with_look(job: Job, us: float) -> Job:
    return replace(job, look=us)


def _with_packet(job: Job, us: float) -> Job:
    return replace(job, profile=networks.variant(job.profile, "loggp", "Tr", f"{us:.4f}"))


@cache
def overhead(job: Job, compute: float = HIDING) -> float:
    """Start, looks and wait around so much computation, us: its lower bound, and with no computation the latency
    (section V-B)."""
    around = Surroundings(compute=compute, progress="polled", poll_every=job.every, poll=job.look)
    return simulate("allreduce", job.algorithm, job.profile, job.processes // job.cores, job.cores, size=8,
                    around=around)["us"] - compute


def hiding_us(job: Job) -> float:
    """The computation from which on the overhead is within 5 % of its lower bound."""
    bound = 1.05 * overhead(job)
    if overhead(job, float(MOST_US)) > bound:
        return math.inf
    return next((float(compute + STEP_US) for compute in range(MOST_US - STEP_US, -1, -STEP_US)
                 if overhead(job, float(compute)) > bound), 0.0)


def fit_look(eight: Job, every: float) -> Fit | None:
    """What a look costs that comes after so much computation."""
    return _fit(eight, every, "look", _with_look)


def _fit(eight: Job, every: float, what: str, priced: Callable[[Job, float], Job]) -> Fit | None:
    """None where 8 processes take longer even if it costs nothing."""
    job = replace(eight, every=every)
    low, high = 0.0, DEAREST_US
    if overhead(priced(job, low)) > FITTED_US:
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if overhead(priced(job, middle)) < FITTED_US else (low, middle)
    return Fit(every, what, low)


@cache
def fits(eight: Job) -> list[Fit]:
    """All that can be fitted to 8 processes."""
    def tried() -> Iterator[Fit | None]:
        for every in EVERY_US:
            yield fit_look(eight, every)
            yield _fit(eight, every, "packet", _with_packet)

    return [fit for fit in tried() if fit is not None]
