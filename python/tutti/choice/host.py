"""The MPI's own collectives beside the rules for a node, both under that MPI: what `tutti tune --choices --mpi` adds."""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tutti.bench import coll, peers, program, rounds
from tutti.bench.rounds import Launch, Plan
from tutti.choice.choices import ALL, CLEARLY, LIST_SIZES, NOWHERE, Point, rules
from tutti.host.mpis import Mpi

NAME = "mpi"
SOURCE = "coll.c"
ROUNDS = 5

Cells = dict[tuple[str, int], float]  # microseconds by (operation, bytes)


def compare(points: Sequence[Point], theirs: Cells, ours: Cells, product: str) -> list[Point]:
    """The points, but left to the MPI where that takes less than CLEARLY of tutti's time: of collectives with lists, in the
    geometric mean over the sizes, and if it takes more than NOWHERE of it with none."""
    decided = []
    for point in points:
        sizes = LIST_SIZES if point.size == ALL else [0 if point.op == "barrier" else point.size]
        times = [(theirs[point.op, size], ours[point.op, size]) for size in sizes]
        ratios = [its / own for its, own in times]
        if statistics.geometric_mean(ratios) < CLEARLY and max(ratios) <= NOWHERE:
            its, own = (statistics.geometric_mean(side) for side in zip(*times, strict=True))
            point = replace(point, alg=NAME, why=f"measured: {product} alone {its:.3g} us, {point.alg} {own:.3g}")
        decided.append(point)
    return decided


def _cells(lines: list[dict[str, Any]]) -> Cells:
    found: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        found.setdefault((line["op"], line["bytes"]), []).append(statistics.median(line["us"]))
    return {cell: statistics.median(values) for cell, values in found.items()}


def check(mpi: Mpi) -> None:
    """Raises Failure where measure() could not build its program."""
    program.compile_for(mpi, program.source(SOURCE))


def measure(points: list[Point], mpi: Mpi, ranks: int, console: Console) -> list[Point]:
    """Of one number of ranks on this node, interleaved: once by these rules, once left to the MPI, through tutti in both
    cases, with the MPI as it is set up. Raises Failure, UserError."""
    ops = list(dict.fromkeys(point.op for point in points))
    sizes = sorted({size for point in points for size in (LIST_SIZES if point.size == ALL else [point.size])})
    forced = ",".join(f"{op}={NAME}" for op in ops)
    plan = Plan(SOURCE, ["--ops", ",".join(ops), "--sizes", ",".join(map(str, sizes)), "--time-ms", str(coll.TIME_MS)],
                len(ops) * len(sizes), coll.TIME_MS * 1e-3, ROUNDS, random.SystemRandom().randrange(10**6))
    settings = peers.Settings(why="as the program will find it")
    with tempfile.TemporaryDirectory(prefix="tutti-tune-") as folder:
        path = Path(folder) / "rules.choices"
        path.write_text("\n".join(rules(points)) + "\n")
        ours = Launch(mpi, ranks, True, "the rules", settings, {"TUTTI_CHOICES": str(path), "TUTTI_ALG": ""})
        theirs = Launch(mpi, ranks, True, "left to it", settings, {"TUTTI_CHOICES": "", "TUTTI_ALG": forced})
        lines = rounds.run(plan, [ours, theirs], console, dry_run=False)
    return compare(points, _cells(lines[theirs]), _cells(lines[ours]), mpi.product)
