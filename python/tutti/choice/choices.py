"""Which algorithms a site uses: the rules of `tutti tune --choices` (in the language of docs/choices.md).

On a node every candidate is measured, interleaved, and takes the place of the built-in choice only where it is clearly
faster. Between nodes the cost model decides: the simulation of every candidate on a network profile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import track

from tutti import native
from tutti.choice import explain
from tutti.errors import UserError

OPS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "gather", "scatter", "reduce_scatter_block", "alltoall",
       "reduce_scatter", "scan", "exscan")
# Each rank knows its own counts only, so that one algorithm has all sizes.
LISTS = ("gatherv", "scatterv", "alltoallv", "alltoallw", "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
         "neighbor_alltoallv", "neighbor_alltoallw")
SIZES = (8, 64, 512, 2048, 8192, 32768, 131072, 524288, 2097152)
SIMULATED_SIZES = (8, 64, 512, 2048, 8192, 32768, 131072)
LIST_SIZES = (64, 2048, 32768, 131072)  # of a block
ALL = 0  # the size of a point for all of them
ROUNDS = 5
CLEARLY = 0.9  # of the built-in choice's time: what a candidate on a node must reach, since measurements scatter
PREDICTED = 0.97  # likewise between nodes, where the simulation does not scatter
NOWHERE = 1.1  # of the built-in choice's time: what has all sizes may not take more with any of them


@dataclass(frozen=True)
class Cost:
    """What one candidate takes. `us` is None where it cannot run."""

    alg: str
    us: float | None
    builtin: bool  # what selection takes without a site's rules


@dataclass(frozen=True)
class Point:
    """The rule for one place."""

    op: str
    where: str
    ranks: int
    size: int
    alg: str
    why: str


def decide(op: str, where: str, ranks: int, size: int, costs: Iterable[Cost], margin: float, kind: str) -> Point | None:
    """The built-in choice, unless another one takes less than `margin` of its time. None when nothing can run."""
    runnable = [cost for cost in costs if cost.us is not None]
    builtin = next((cost for cost in runnable if cost.builtin), None)
    if not runnable:
        return None
    best = min(runnable, key=lambda cost: cost.us)
    if builtin is not None and (best.us or 0) >= margin * (builtin.us or 0):
        return Point(op, where, ranks, size, builtin.alg, f"built-in, {kind}: {builtin.us:.3g} us")
    instead = "" if builtin is None else f", built-in {builtin.alg} {builtin.us:.3g}"
    return Point(op, where, ranks, size, best.alg, f"{kind}: {best.us:.3g} us{instead}")


def decide_for_all(op: str, where: str, ranks: int, costs: dict[int, list[Cost]], margin: float, kind: str) -> Point | None:
    """As decide(), by `costs` of several sizes: the built-in choice (or, without one, what comes first), unless another
    one takes less than `margin` of its time in the geometric mean, and more than NOWHERE of it with no size. None when
    nothing can run with all sizes."""
    times = {size: {cost.alg: cost.us for cost in found if cost.us is not None} for size, found in costs.items()}
    first, *others = times.values()
    runnable = [alg for alg in first if all(alg in other for other in others)]
    if not runnable:
        return None
    builtin = next((cost.alg for found in costs.values() for cost in found if cost.builtin and cost.alg in runnable), None)
    usual = builtin or runnable[0]
    ratios = {alg: [times[size][alg] / times[size][usual] for size in costs] for alg in runnable}
    fit = [alg for alg in runnable if max(ratios[alg]) <= NOWHERE]
    best = min(fit, key=lambda alg: statistics.geometric_mean(ratios[alg]))
    mean = statistics.geometric_mean(ratios[best])
    if best == usual or (builtin is not None and mean >= margin):
        return Point(op, where, ranks, ALL, usual, f"built-in, {kind}" if builtin else f"{kind}: no other is better")
    return Point(op, where, ranks, ALL, best, f"{kind}: {mean:.3g} of the time of {usual}")


def _variants(op: str, chosen: str) -> list[str]:
    texts = [text for name, parameter, default, _ in explain.listed(op)
             for text in explain.variants(name, parameter, default, within_a_node=True)]
    return texts if chosen in texts or not chosen else [chosen, *texts]


def _measured(op: str, ranks: int, size: int) -> list[Cost]:
    """Every candidate with `ranks` threads, interleaved; medians."""
    core = native.core()
    chosen, _ = core.chosen(op, size, 1, ranks)
    calls = max(20, min(2000, int(4e6 / (size + 2000))))
    times: dict[str, list[float]] = {}
    out: set[str] = set()
    texts = _variants(op, chosen)
    for _ in range(ROUNDS):
        for text in texts:
            if text in out:
                continue
            try:
                times.setdefault(text, []).append(core.measure_collective(f"{op}={text}", size, ranks, calls))
            except ValueError:
                out.add(text)  # it cannot run there
    return [Cost(text, statistics.median(found), text == chosen) for text, found in times.items() if found]


def _predicted(op: str, nodes: int, size: int, net: str) -> list[Cost]:
    """Every candidate simulated on a profile, one rank on each node."""
    rows = explain.candidates(op, size, nodes, 1, net, multicast=False, progress=False)
    return [Cost(row["alg"], row["us"], row["chosen"]) for row in rows]


def choose(op: str, where: str, ranks: int, size: int, net: str) -> Point | None:
    """Measured on this node, or predicted between nodes. `size`: ALL for a collective with lists."""

    def costs(of: int) -> list[Cost]:
        return _measured(op, ranks, of) if where == "node" else _predicted(op, ranks, of, net)

    margin, kind = (CLEARLY, "measured") if where == "node" else (PREDICTED, "predicted")
    if size == ALL:
        return decide_for_all(op, where, ranks, {of: costs(of) for of in LIST_SIZES}, margin, kind)
    return decide(op, where, ranks, size, costs(size), margin, kind)


def _in_rules(alg: str) -> str:
    """NAME:KEY=VALUE:KEY=VALUE, as TUTTI_ALG has it, in the language of the rules."""
    name, *values = alg.split(":")
    return f"{name}({','.join(values)})" if values else name


def _lines(op: str, points: list[Point]) -> list[str]:
    """One line for each run of sizes with the same choice. A size between two that were tried belongs to the nearer
    one (by ratio), larger ones than tried to the largest."""
    mine = sorted((point for point in points if point.op == op), key=lambda point: point.size)
    lines = []
    for i, point in enumerate(mine):
        if i + 1 < len(mine) and mine[i + 1].alg == point.alg:
            continue
        sizes = "*" if i + 1 == len(mine) else f"..{math.isqrt(point.size * mine[i + 1].size)}"
        tried = "all sizes," if point.size == ALL else f"{point.size} B"
        lines.append(f"{f'{op}: {sizes} {_in_rules(point.alg)}':58} # {tried} {point.why}")
    return lines


def rules(points: list[Point]) -> list[str]:
    """A section for each place and number of ranks. Numbers between those that were tried belong to the next larger."""
    lines = []
    for where in dict.fromkeys(point.where for point in points):
        counts = sorted({point.ranks for point in points if point.where == where})
        for below, ranks in zip([1, *counts[:-1]], counts, strict=True):
            here = [point for point in points if (point.where, point.ranks) == (where, ranks)]
            lines.append(f"[{where} ranks={ranks if below + 1 == ranks else f'{below + 1}..{ranks}'}]")
            for op in dict.fromkeys(point.op for point in here):
                lines += _lines(op, here)
            lines.append("")
    return lines


def tune(node_ranks: list[int], node_counts: list[int], net: str) -> list[Point]:
    """All decisions. `node_ranks`: how many ranks to measure on this node; `node_counts`: how many nodes to simulate."""
    if any(count < 2 for count in [*node_ranks, *node_counts]):
        raise UserError("--np and --nodes: a choice needs two ranks or more")
    jobs = []
    for where, counts, sizes in (("node", node_ranks, SIZES), ("nodes", node_counts, SIMULATED_SIZES)):
        jobs += [(op, where, ranks, size) for op in OPS for ranks in counts for size in sizes
                 if op != "barrier" or size == sizes[0]]
        jobs += [(op, where, ranks, ALL) for op in LISTS for ranks in counts]
    points = []
    for op, where, ranks, size in track(jobs, "choosing", console=Console(stderr=True), transient=True):
        found = choose(op, where, ranks, size, net)
        if found is not None:
            points.append(found)
    return points
