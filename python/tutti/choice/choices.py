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
SIZES = (8, 64, 512, 2048, 8192, 32768, 131072, 524288, 2097152)
SIMULATED_SIZES = (8, 64, 512, 2048, 8192, 32768, 131072)
ROUNDS = 5
CLEARLY = 0.9  # of the built-in choice's time: what a candidate on a node must reach, since measurements scatter
PREDICTED = 0.97  # likewise between nodes, where the simulation does not scatter


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


def _variants(op: str, chosen: str) -> list[str]:
    texts = [text for name, parameter, default, _ in explain.listed(op)
             for text in explain.variants(name, parameter, default, within_a_node=True)]
    return texts if chosen in texts or not chosen else [chosen, *texts]


def measure_node(op: str, ranks: int, size: int) -> Point | None:
    """Measures every candidate with `ranks` threads, interleaved; medians."""
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
    costs = [Cost(text, statistics.median(found), text == chosen) for text, found in times.items() if found]
    return decide(op, "node", ranks, size, costs, CLEARLY, "measured")


def predict_nodes(op: str, nodes: int, size: int, net: str) -> Point | None:
    """Simulates every candidate on a profile, one rank on each node."""
    rows = explain.candidates(op, size, nodes, 1, net, multicast=False, progress=False)
    return decide(op, "nodes", nodes, size, [Cost(row["alg"], row["us"], row["chosen"]) for row in rows], PREDICTED,
                  "predicted")


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
        lines.append(f"{f'{op}: {sizes} {_in_rules(point.alg)}':58} # {point.size} B {point.why}")
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
    jobs = [(op, "node", ranks, size) for op in OPS for ranks in node_ranks for size in SIZES
            if op != "barrier" or size == SIZES[0]]
    jobs += [(op, "nodes", nodes, size) for op in OPS for nodes in node_counts for size in SIMULATED_SIZES
             if op != "barrier" or size == SIMULATED_SIZES[0]]
    points = []
    for op, where, ranks, size in track(jobs, "choosing", console=Console(stderr=True), transient=True):
        found = measure_node(op, ranks, size) if where == "node" else predict_nodes(op, ranks, size, net)
        if found is not None:
            points.append(found)
    return points
