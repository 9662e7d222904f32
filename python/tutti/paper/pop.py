"""POP's solver for the claims of CDCP-2008: what tutti.sim.barotropic takes, with its computation fitted on the crossing at
160 processors. Dedicated processors are served by messages here, as the paper's library does it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tutti.sim import applications, barotropic, sums
from tutti.sim.applications import REAL, Process

CORES = 4
CROSSING = 160  # processors with which a fifth of them as dedicated ones is as good as none
STEPS, NEAR_US = 20, 0.2  # to find it; 0.2 us of about 150
# Where the first of the three sums is: the text has it overlap the correction, which is in the test.
PLACES = {"sums as the text places them": False, "a sum more in each iteration": True}


@dataclass(frozen=True)
class Case:
    """A baseline, and a place of the sums."""

    name: str
    profile: str
    blocking: str  # of tutti.sim.sums
    sum_each: bool


@cache
def _blocking(case: Case, processors: int, work: float) -> float:
    members = list(range(processors))
    return barotropic.iteration_us(barotropic.Solver(work, case.sum_each), case.profile, CORES, members,
                                   barotropic.blocking(members, case.blocking), processors)


@cache
def _nonblocking(case: Case, processors: int, work: float) -> float:
    members = list(range(processors))
    return barotropic.iteration_us(barotropic.Solver(work, case.sum_each), case.profile, CORES, members,
                                   barotropic.nonblocking(members, case.blocking), processors)


@cache
def _dedicated(profile: str, sum_each: bool, apps: int, dcps: int, work: float) -> float:
    machine = sums.Dedicated(apps, dcps, CORES)
    return barotropic.iteration_us(barotropic.Solver(work, sum_each), profile, CORES, machine.members,
                                   barotropic.dedicated(machine), machine.total)


@cache
def work_us(case: Case) -> float:
    """An iteration on one processor, so that 128 with 32 dedicated ones are as fast as 160."""
    def gain(work: float) -> float:
        return (_blocking(case, CROSSING, work)
                - _dedicated(case.profile, case.sum_each, CROSSING * 4 // 5, CROSSING // 5, work))

    low, gained = 0.0, gain(0.0)
    high = 2 * gained * 4 * CROSSING  # a processor has a quarter more of the work: twice what that would take
    lost = gain(high)
    if gained <= 0 or lost >= 0:
        raise ValueError(f"{case.name}: no computation makes both as fast at {CROSSING} processors")
    for _ in range(STEPS):  # the gain is nearly linear
        work = low + (high - low) * gained / (gained - lost)
        gains = gain(work)
        if abs(gains) < NEAR_US:
            break
        if gains > 0:
            low, gained, lost = work, gains, lost / 2
        else:
            high, lost, gained = work, gains, gained / 2
    return work


def blocking(case: Case, processors: int) -> float:
    """us an iteration."""
    return _blocking(case, processors, work_us(case))


def nonblocking(case: Case, processors: int) -> float:
    """us an iteration with NBC over the same algorithm, where the solver does not look at its sums before it waits."""
    return _nonblocking(case, processors, work_us(case))


def with_dedicated(case: Case, apps: int, dcps: int, times: float = 1.0) -> float:
    """us an iteration; with so many times the computation."""
    return _dedicated(case.profile, case.sum_each, apps, dcps, times * work_us(case))


@cache
def dedicated_overhead(profile: str, apps: int, dcps: int, cores: int, compute: float = 1000.0) -> float:
    """Of an allreduce by messages around a computation that hides it: start and wait, us."""
    machine = sums.Dedicated(apps, dcps, cores)
    ranks = [Process() for _ in range(machine.nodes * cores)]
    repeat = 4
    for number in range(repeat + 1):
        if number == 1:  # the first one makes the connections
            for rank in machine.members:
                ranks[rank].mark()
        requests = machine.start(ranks, REAL)
        for rank in machine.members:
            ranks[rank].compute(compute)
        sums.finish(ranks, requests)
    times = applications.run(ranks, "read", profile, cores)
    spent = [times["finished_us"][rank] - times["marked_us"][rank] for rank in machine.members]
    return sum(spent) / len(spent) / repeat - compute
