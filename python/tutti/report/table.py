"""Benchmark rows as a table: the best peer, tutti over each MPI, and the ratio between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

GOOD, BAD = 1.0, 0.95  # ratios below BAD are defects and stand out

Row = dict[str, Any]
Cell = tuple[str, int]


def size_text(count: int) -> str:
    for unit, scale in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if count >= scale and count % scale == 0:
            return f"{count // scale} {unit}"
    return str(count)


def time_text(us: float) -> str:
    return f"{us:.3f}" if us < 1 else f"{us:.2f}" if us < 100 else f"{us:,.0f}"


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def cells(rows: list[Row], ranks: int, key: str = "us") -> dict[Cell, dict[tuple[str, bool], float]]:
    """(op, bytes) -> (mpi, tutti) -> microseconds: medians of the rounds, or with `us_min` the fastest round. Of an MPI that
    was measured with several settings, those that are fastest in this cell."""
    found: dict[Cell, dict[tuple[str, bool], float]] = {}
    for row in rows:
        if row["np"] == ranks:
            times = found.setdefault((row["op"], row["bytes"]), {})
            which = row["mpi"], row["tutti"]
            times[which] = min(row[key], times.get(which, math.inf))
    return found


def best_peer(times: dict[tuple[str, bool], float]) -> tuple[str, float]:
    """The fastest MPI without tutti."""
    peer, us = min(((mpi, us) for (mpi, tutti), us in times.items() if not tutti), key=lambda pair: pair[1])
    return peer, us


def ratios(rows: list[Row], ranks: int, key: str = "us") -> dict[Cell, dict[str, float]]:
    """(op, bytes) -> mpi -> best peer's time / time of tutti over that MPI."""
    return {cell: {mpi: best_peer(times)[1] / us for (mpi, tutti), us in times.items() if tutti}
            for cell, times in cells(rows, ranks, key).items()}


def _ratio_text(ratio: float) -> Text:
    style = "bold red" if ratio < BAD else "yellow" if ratio < GOOD else "green"
    return Text(f"{ratio:.2f}", style=style)


def show(rows: list[Row], console: Console) -> None:
    """Prints a table for every number of ranks, each with its geometric means."""
    for ranks in sorted({row["np"] for row in rows}):
        _show_ranks(rows, ranks, console)


def _show_ranks(rows: list[Row], ranks: int, console: Console) -> None:
    names = list(dict.fromkeys(row["mpi"] for row in rows if row["tutti"]))
    table = Table(title=f"{ranks} ranks: microseconds; ratio = best peer / tutti over that MPI (more is better)",
                  title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("op", no_wrap=True)
    table.add_column("bytes", justify="right")
    table.add_column("best\npeer", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(f"tutti over\n{name}", justify="right", no_wrap=True)
        table.add_column("ratio", justify="right", no_wrap=True)
    previous = ""
    by_cell = ratios(rows, ranks)
    for (op, size), times in cells(rows, ranks).items():
        peer, us = best_peer(times)
        line: list[str | Text] = [op if op != previous else "", size_text(size), time_text(us), peer]
        for name in names:
            line += [time_text(times[name, True]), _ratio_text(by_cell[op, size][name])]
        table.add_row(*line)
        previous = op
    table.add_section()
    means: list[str | Text] = ["geo. mean", "", "", ""]
    for name in names:
        means += ["", _ratio_text(geometric_mean(by_cell[cell][name] for cell in by_cell))]
    table.add_row(*means, style="bold")
    console.print(table)
    console.print(_summary(by_cell) + _fastest(rows, ranks) + "\n", highlight=False, soft_wrap=True)


def _fastest(rows: list[Row], ranks: int) -> str:
    """On a shared host processors are near to each other in one launch and far in the next: a median of few launches
    then compares states of the host. The fastest round of each was in the same, best state."""
    if not all(row.get("rounds", 1) > 1 and "us_min" in row for row in rows):
        return ""
    best = [max(line.values()) for line in ratios(rows, ranks, "us_min").values()]
    return f"\nby the fastest round of each: {geometric_mean(best):.2f} in geometric mean, lowest {min(best):.2f}"


def _summary(by_cell: dict[Cell, dict[str, float]]) -> str:
    best = [max(line.values()) for line in by_cell.values()]
    worst = [ratio for line in by_cell.values() for ratio in line.values()]
    below = sum(ratio < BAD for ratio in worst)
    return (f"best of tutti against best of the peers: {geometric_mean(best):.2f} in geometric mean, "
            f"lowest {min(best):.2f}; over all MPIs: {geometric_mean(worst):.2f}, lowest {min(worst):.2f}, "
            f"{below} of {len(worst)} below {BAD}")
