"""Each MPI with tutti against the same MPI alone, at the same settings: what `tutti bench coll --against own` says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from tutti.report.table import geometric_mean, size_text, time_text

FLOOR = 0.97  # ratios below it are losses

Group = tuple[int, str, str]  # ranks, MPI, settings


@dataclass(frozen=True)
class Compared:
    """One cell: the MPI's time by that with tutti, more is better."""

    group: Group
    op: str
    bytes: int
    alone_us: float
    us: float
    median: float   # of the medians
    fastest: float  # of the fastest rounds

    def loses(self) -> bool:
        return min(self.median, self.fastest) < FLOOR


def compare(rows: Iterable[dict[str, Any]]) -> list[Compared]:
    """Of rows of `tutti bench coll`, one for each cell that was measured both alone and with tutti."""
    sides: dict[tuple[Group, str, int], dict[bool, dict[str, Any]]] = {}
    for row in rows:
        sides.setdefault(((row["np"], row["mpi"], row["settings"]), row["op"], row["bytes"]), {})[row["tutti"]] = row
    return [Compared(group, op, size, both[False]["us"], both[True]["us"], both[False]["us"] / both[True]["us"],
                     both[False]["us_min"] / both[True]["us_min"])
            for (group, op, size), both in sides.items() if len(both) == 2]


def below(cells: Iterable[Compared]) -> list[tuple[Group, str, int]]:
    """Those that lose, by the median or by the fastest round."""
    return [(cell.group, cell.op, cell.bytes) for cell in cells if cell.loses()]


def show(rows: list[dict[str, Any]], again: list[dict[str, Any]], console: Console) -> None:
    """A line for each MPI, its settings and number of ranks; then the cells that lose in both measurements."""
    first, second = compare(rows), compare(again)
    staying = set(below(first)) & set(below(second))
    table = Table(title="the MPI's own time by that with tutti (more is better)", title_justify="left", box=None,
                  pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("ranks", "MPI", "settings"):
        table.add_column(name, overflow="fold")
    for name in ("geo. mean", "fastest", "lowest", "cells", f"below {FLOOR}", "again"):
        table.add_column(name, justify="right")
    for group in dict.fromkeys(cell.group for cell in first):
        mine = [cell for cell in first if cell.group == group]
        table.add_row(str(group[0]), group[1], group[2], f"{geometric_mean(cell.median for cell in mine):.2f}",
                      f"{geometric_mean(cell.fastest for cell in mine):.2f}",
                      f"{min(min(cell.median, cell.fastest) for cell in mine):.2f}", str(len(mine)),
                      str(sum(cell.loses() for cell in mine)), str(sum(of == group for of, _, _ in staying)))
    console.print(table)
    lasting = [cell for cell in second if (cell.group, cell.op, cell.bytes) in staying]
    for cell in sorted(lasting, key=lambda one: min(one.median, one.fastest)):
        console.print(f"  {cell.group[0]} ranks, {cell.group[1]} ({cell.group[2]}), {cell.op} {size_text(cell.bytes)}: "
                      f"{time_text(cell.alone_us)} us alone, {time_text(cell.us)} with tutti: {cell.median:.2f} by the "
                      f"median, {cell.fastest:.2f} by the fastest round", highlight=False, soft_wrap=True)
    everywhere = geometric_mean(cell.median for cell in first)
    console.print(f"{everywhere:.2f} in geometric mean; {len(staying)} of {len(first)} cells below {FLOOR} in both "
                  "measurements" if first and not math.isnan(everywhere) else "nothing to compare",
                  highlight=False, soft_wrap=True)
