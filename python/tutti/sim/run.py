"""An algorithm of the list, unchanged, on a simulated machine: one point, or a sweep as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tutti import native
from tutti.errors import UserError
from tutti.sim import dedicated, networks

PROGRESS = ("blocking", "host", "polled", "interrupt")


@dataclass(frozen=True)
class Surroundings:
    """What happens around a collective. Times in microseconds."""

    compute: float = 0.0        # by every rank, in every iteration
    progress: str = "blocking"  # blocking, host (moves in the wait only), polled or interrupt
    noise_period: float = 0.0   # every rank's processor is taken away once in so long ...
    noise: float = 0.0          # ... for this
    skew: float = 0.0           # ranks come up to so much later
    seed: int = 1
    poll_every: float = 0.0     # polled: computation before each look, until the collective is over ...
    poll: float = 0.0           # ... and what a look takes


QUIET = Surroundings()


def simulate(op: str, alg: str, net: str, nodes: int, ppn: int = 1, size: int = 4, root: int = 0,
             repeat: int = 1, per_rank: bool = False, trace: bool = False,
             around: Surroundings = QUIET, in_layers: str = "", scattered: bool = False,
             warm: int = 0) -> dict[str, Any]:
    """One point: `us` is when the last rank is through, the average of `repeat` collectives back to back, after
    `warm` others; `events` of the simulation and `interrupts` taken; with `per_rank` both of each rank (`per_rank_us`,
    `per_rank_interrupts`), with `trace` the puts between nodes
    (`messages`: from, to, bytes, posted, visible). `in_layers`: what is taken on the nodes and between their leaders,
    as TUTTI_ALG names it; else what selection takes. `scattered`: the ranks of a node are dealt out to its packages in
    turn."""
    if dedicated.is_dedicated(alg):
        if per_rank or trace or root or in_layers or scattered:
            raise UserError(f"--alg {alg}: dedicated processors are simulated without --timeline, --goal, --root, "
                            "--layer-alg and --scattered")
        return dedicated.simulate(op, alg, net, nodes, ppn, size, repeat, around.compute,
                                (around.noise_period, around.noise), around.skew, around.seed)
    core = native.core()
    try:
        return core.simulate(f"{op}={alg}", networks.path_of(net), nodes, ppn, size, root, repeat, per_rank, trace,
                             around.compute, around.progress, around.noise_period, around.noise, around.skew,
                             around.seed, in_layers, scattered, around.poll_every, around.poll, warm)
    except (ValueError, TypeError) as error:
        raise UserError(str(error).split("\n")[0]) from None


def arrays(op: str, alg: str, nodes: int | Iterable[int], bytes: int | Iterable[int] = 4,  # noqa: A002
           net: str = "via2003", ppn: int = 1, root: int = 0, repeat: int = 1,
           around: Surroundings = QUIET) -> dict[str, Any]:
    """A sweep as NumPy arrays: `nodes`, `bytes`, and by (nodes, bytes) `us` and `events`; `per_rank_us` is a list of
    arrays in the same order, flat."""
    try:
        import numpy
    except ImportError:
        raise UserError("tutti.sim(...) needs NumPy: pip install 'tutti-mpi[plot]'") from None
    counts = [nodes] if isinstance(nodes, int) else list(nodes)
    sizes = [bytes] if isinstance(bytes, int) else list(bytes)
    points = [simulate(op, alg, net, n, ppn, b, root, repeat, per_rank=True, around=around)
              for n in counts for b in sizes]
    shape = (len(counts), len(sizes))
    return {"nodes": numpy.array(counts), "bytes": numpy.array(sizes),
            "us": numpy.array([point["us"] for point in points]).reshape(shape),
            "events": numpy.array([point["events"] for point in points], dtype=numpy.uint64).reshape(shape),
            "per_rank_us": [numpy.array(point["per_rank_us"]) for point in points]}


def parse_poll(text: str) -> tuple[float, float]:
    """EVERY:COST in microseconds."""
    try:
        every, cost = (float(part) for part in text.split(":"))
    except ValueError:
        raise UserError(f"--poll takes EVERY:COST in microseconds, such as 5:0.5, not '{text}'") from None
    if every <= 0 or cost < 0:
        raise UserError("--poll: the time between two looks must be above 0, and a look takes no negative time")
    return every, cost


def parse_noise(text: str) -> tuple[float, float]:
    """PERIOD:DURATION in microseconds."""
    try:
        period, duration = (float(part) for part in text.split(":"))
    except ValueError:
        raise UserError(f"--noise takes PERIOD:DURATION in microseconds, such as 1000:25, not '{text}'") from None
    if not 0 < duration < period:
        raise UserError("--noise: the duration must be above 0 and below the period")
    return period, duration
