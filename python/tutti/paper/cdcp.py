"""The claims of CDCP-2008, from simulation on the profile opteron2008: 4 cores a node, which share its NIC.

What is calibrated: what a packet costs its receiver (Tr), so that the blocking allreduce of 8 processes takes the
paper's 17 us; see the profile. Everything else is a prediction. The blocking allreduce is the binomial one of the
paper's figure 1 by send/receive. NBC's cost, which is that of its polling, is not modelled: a claim that is also about NBC
does not hold, and says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tutti.sim.dedicated import simulate as simulate_dedicated
from tutti.sim.run import simulate

NET, CORES = "opteron2008", 4
NO_NBC = "NBC polls in the computation, at a cost that is not published and not modelled"
POINTS = 0.05
HIDING = 1000.0  # us of computation that hide everything


@cache
def dedicated(apps: int, dcps: int, size: int = 8, compute: float = 0.0) -> float:
    """Start and wait, us."""
    return simulate_dedicated("allreduce", f"dcp:count={dcps}", NET, apps // CORES, CORES, size, compute=compute)["us"]


@cache
def blocking(processes: int, size: int = 8) -> float:
    return simulate("allreduce", "sendrecv_binomial", NET, processes // CORES, CORES, size=size)["us"]


def _blocking_misses() -> str:
    """Why the baseline at 512 is not the published one."""
    other = simulate("allreduce", "sendrecv_recursive_doubling", NET, 512 // CORES, CORES, size=8)["us"]
    return (f"blocking takes {blocking(512):.1f} us here and 51 there: 14 of the 18 steps of figure 1 are between nodes, "
            f"at 4 us published for each; recursive doubling would take {other:.1f} us at 512 and "
            f"{_doubling_of_8():.1f} at 8, where 17 are published")


def _doubling_of_8() -> float:
    return simulate("allreduce", "sendrecv_recursive_doubling", NET, 2, CORES, size=8)["us"]


def _latency(claim: dict[str, Any]) -> tuple[str, bool, str]:
    ours, baseline = dedicated(512, 128), blocking(512)
    benefit = 1 - ours / baseline
    why = (f"simulated {ours:.1f} us (published: 40) against {baseline:.1f}; {(benefit - 0.30) * 100:+.1f} points; against "
           f"the published 51 us it would be {1 - ours / 51:.1%}; {_blocking_misses()}; {NO_NBC}")
    return f"{benefit:.1%} less", False, why


def _overhead(claim: dict[str, Any]) -> tuple[str, bool, str]:
    few, many = dedicated(8, 2, 8, HIDING), dedicated(512, 128, 8, HIDING)
    base = blocking(8), blocking(512)
    return (f"{few:.2f} us at 8, {many:.2f} at 512; blocking {base[0]:.1f} and {base[1]:.1f}", False,
            "calibration: of these only blocking at 8 processes was fitted. Ours is lower than 1.6 us because an APP on "
            "its DCP's node stores its request and reads the answer, where the paper sends and receives; those of other "
            f"nodes pay 1 us for their put. {_blocking_misses()}; {NO_NBC}")


def _hidden(claim: dict[str, Any]) -> tuple[str, bool, str]:
    """The least computation with which the overhead is within 5 % of its lower bound."""
    bound = dedicated(512, 128, 8, HIDING)
    times = [us for us in range(0, 125, 2) if dedicated(512, 128, 8, float(us)) <= 1.05 * bound]
    found = f"{min(times)} us" if times else "more than 124 us"
    why = f"latency {dedicated(512, 128):.1f} us; in steps of 2 us; the part about NBC is open: {NO_NBC}"
    return found, False, why


def _ratio(claim: dict[str, Any]) -> tuple[str, bool, str]:
    counts = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    times = {count: dedicated(512, count) for count in counts}
    best = min(times, key=lambda count: times[count])
    from_on = next((count for count in counts if times[count] < blocking(512)), 0)
    published = {1: 3500.0, 16: 95.0, 64: 40.0, 128: 40.0}
    near = all(abs(times[count] / us - 1) <= 0.25 for count, us in published.items())
    why = (f"blocking {blocking(512):.1f} us; with one DCP the requests of 512 are taken one after the other, which "
           "gives no more than this: the rest of the published 3500 us is not explained in the paper")
    found = ", ".join(f"{count}: {times[count]:.0f}" for count in counts)
    return (f"{found} us; best {best}; beats blocking from {from_on}",
            near and best in (64, 128) and from_on == 32, why)


def _size(claim: dict[str, Any]) -> tuple[str, bool, str]:
    small, large = dedicated(512, 128), dedicated(512, 128, 1024)
    overhead = dedicated(512, 128, 1024, HIDING)
    worse = large / small - 1
    holds = abs(worse - 0.09) <= POINTS and abs(overhead / 2.9 - 1) <= 0.1
    relative = 1 - dedicated(512, 128, 1024) / blocking(512, 1024)
    return (f"{worse:+.1%}, overhead {overhead:.2f} us", holds,
            f"read as the latency against that of 8 B; against blocking it is {relative:.1%} less")


# A program of ten iterations of the solver: what each process computes, at `processes` of them, and its collectives.
HALO_US = 2 * 12.0  # two exchanges with four neighbours, estimated from the profile: 4 sends and 4 receives


def _computation(processes: int, crossing: float) -> float:
    """Of one iteration. One constant, calibrated: with and without DCPs take as long at 160 processors."""
    return crossing / processes


def _iteration(apps: int, collective: float, overlapped: float, crossing: float) -> float:
    """Two allreduces and a halo exchange in each iteration, one of each more in every tenth."""
    halo = HALO_US / 2
    compute = _computation(apps, crossing)
    hidden = max(overlapped, collective - halo) if overlapped else collective
    first = max(overlapped, collective - 0.1 * compute) if overlapped else collective  # behind the correction
    return compute + first + halo + hidden + 0.1 * (halo + hidden)


def _crossing() -> float:
    """The work at which 160 processors are as fast with a fifth of them as DCPs."""
    low, high = 1.0, 1e7
    overhead = dedicated(8, 2, 8, HIDING)
    for _ in range(60):
        middle = (low * high) ** 0.5
        gains = _iteration(128, dedicated(128, 32), overhead, middle) < _iteration(160, blocking(160), 0.0, middle)
        low, high = (middle, high) if gains else (low, middle)
    return low


def _pop(claim: dict[str, Any]) -> tuple[str, bool, str]:
    work, overhead = _crossing(), dedicated(8, 2, 8, HIDING)
    with_dcps = _iteration(512, dedicated(512, 128), overhead, work)
    without = _iteration(640, blocking(640), 0.0, work)
    benefit = 1 - with_dcps / without
    return (f"{benefit:.1%} less than blocking", abs(benefit - 0.15) <= POINTS,
            f"a model of the solver on simulated collectives ({with_dcps:.0f} against {without:.0f} us an iteration), "
            f"its computation calibrated on the crossing at 160; POP itself was not run; {NO_NBC}")


def _pop_few(claim: dict[str, Any]) -> tuple[str, bool, str]:
    work, overhead = _crossing(), dedicated(8, 2, 8, HIDING)
    share = (_iteration(512, dedicated(512, 64), overhead, work) / _iteration(512, dedicated(512, 8), overhead, work))
    return (f"{share:.1%}", abs(share - 0.95) <= POINTS,
            "the same model of the solver; in it eight DCPs that serve 64 each are too slow to be hidden"
            if share < 0.9 else "the same model of the solver")


EVALUATIONS: dict[str, Callable[[dict[str, Any]], tuple[str, bool, str]]] = {
    "cdcp.latency.512": _latency, "cdcp.overhead": _overhead, "cdcp.hidden": _hidden, "cdcp.ratio": _ratio,
    "cdcp.size": _size, "cdcp.pop.640": _pop, "cdcp.pop.few": _pop_few,
}
