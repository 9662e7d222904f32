"""Times of large messages from simulations of smaller ones. Where an algorithm moves blocks of a fixed size, or parts
so large that each of them takes as long as it has bytes, its time grows in proportion to the size. That is not taken
for granted: the smallest two of three sizes must predict the third."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PART = 65536         # bytes from which on a message's time is its bytes' (beyond every limit of a profile)
BLOCKS = 64          # of a fixed size, that fill every pipeline
CASTS = 2 << 20      # bytes: several windows of multicast
LINEAR = 0.005       # how far the third size may be from what the first two say ...
GROWTH = 1.5         # ... and how many times as long as the second it takes at least: else it is latency that was seen
MOST_EVENTS = 4_000_000  # of the fabric, of one simulation
WHOLE_VECTOR = ("bcast", "reduce", "allreduce", "allgatherv", "barrier")


@dataclass(frozen=True)
class Prediction:
    """`us` is None where nothing can be said, and `how` then says why; else `how` is empty for what was simulated as
    it is."""

    us: float | None
    how: str = ""
    sizes: tuple[int, ...] = ()  # simulated ones that it was extrapolated from


def parameter(alg: str, name: str) -> int:
    """Of `alg` as TUTTI_ALG names it; 0 where it is not said."""
    for part in alg.split(":")[1:]:
        key, _, value = part.partition("=")
        if key == name:
            return int(value)
    return 0


def first_size(op: str, alg: str, nodes: int, ppn: int) -> int:
    """The smallest size whose time may be in proportion."""
    ways = max(nodes, ppn) if op in WHOLE_VECTOR else 1
    if "multicast" in alg:
        return max(CASTS // (nodes if op == "allgather" else 1), PART)
    block = parameter(alg, "block")
    return BLOCKS * block if block else PART * ways


def in_words(size: int) -> str:
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def predict(simulate: Callable[[int], tuple[float, int]], op: str, alg: str, size: int, nodes: int,
            ppn: int) -> Prediction:
    """`simulate` gives the microseconds and the events of a size. Whatever it raises goes through."""
    first = first_size(op, alg, nodes, ppn)
    if size <= 4 * first:
        return Prediction(simulate(size)[0])
    if first > 4 * PART:
        _, events = simulate(PART)
        if events > MOST_EVENTS // 4:
            return Prediction(None, f"not simulated: {in_words(PART)} alone took {events:,} events")
    us, events = simulate(first)
    sizes, times = [first], [us]
    while True:
        following = 2 * sizes[-1]
        if following >= size:
            return Prediction(simulate(size)[0])
        # The first that can say anything is the third: what is too much for it is not begun.
        target, work = (following, 2 * events) if len(sizes) > 1 else (2 * following, 4 * events)
        if work > MOST_EVENTS:
            return Prediction(None, f"not simulated: {in_words(target)} alone would take about {work:,} events" +
                              (", and up to there its time is not in proportion to the size" if len(sizes) > 2 else ""))
        us, events = simulate(following)
        if len(sizes) == 1:
            sizes.append(following)
            times.append(us)
            continue
        slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        off = abs(times[-1] + slope * (following - sizes[-1]) - us) / us
        sizes.append(following)
        times.append(us)
        if off <= LINEAR and us >= GROWTH * times[-2]:
            slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
            three = tuple(sizes[-3:])
            return Prediction(times[-1] + slope * (size - sizes[-1]),
                              f"extrapolated from {', '.join(map(in_words, three))} (in proportion within {off:.2%})", three)
