"""Benchmark rows as a picture: one panel per operation and number of ranks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tutti.errors import UserError
from tutti.report.table import size_text

FORMATS = (".png", ".svg", ".pdf")
COLOURS = {"mpich": "#1b6ca8", "openmpi": "#d1772f", "impi": "#4d8b31"}
PRODUCTS = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI"}


def check(path: Path) -> None:
    """Raises UserError when nothing can be drawn there, before hours are spent measuring."""
    if path.suffix not in FORMATS:
        raise UserError(f"--plot {path}: expected a name that ends in {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("--plot needs matplotlib: pip install 'tutti-mpi[plot]'")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ops = list(dict.fromkeys(row["op"] for row in rows))
    ranks = sorted({row["np"] for row in rows})
    figure, axes = pyplot.subplots(len(ranks), len(ops), figsize=(3.6 * len(ops), 3.0 * len(ranks)),
                                   squeeze=False, constrained_layout=True)
    for line, count in enumerate(ranks):
        for column, op in enumerate(ops):
            panel = axes[line][column]
            _panel(panel, [row for row in rows if row["op"] == op and row["np"] == count])
            panel.set_title(f"{op}, {count} ranks", fontsize=10)
    handles = {text: handle for panel in axes.flat
               for handle, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def _fastest(rows: list[dict[str, Any]], key: tuple[str, bool]) -> list[tuple[int, float, float, float]]:
    """(bytes, us, us_min, us_max) by size. Of several settings those that are fastest at that size, as in the table."""
    found: dict[int, tuple[int, float, float, float]] = {}
    for row in sorted(rows, key=lambda row: row["us"], reverse=True):
        if (row["mpi"], row["tutti"]) == key:
            found[row["bytes"]] = row["bytes"], row["us"], row["us_min"], row["us_max"]
    return [found[size] for size in sorted(found)]


def _panel(panel: Any, rows: list[dict[str, Any]]) -> None:
    for key in dict.fromkeys((row["mpi"], row["tutti"]) for row in rows):
        mpi, tutti = key
        sizes, us, low, high = (list(values) for values in zip(*_fastest(rows, key), strict=True))
        style = {"color": COLOURS[mpi], "linestyle": "-" if tutti else "--", "marker": "o" if tutti else "x",
                 "markersize": 3.5, "linewidth": 1.3,
                 "label": f"tutti over {PRODUCTS[mpi]}" if tutti else PRODUCTS[mpi]}
        panel.plot(sizes, us, **style)
        panel.fill_between(sizes, low, high, color=COLOURS[mpi], alpha=0.12, linewidth=0)
    panel.set_yscale("log")
    panel.grid(True, which="major", alpha=0.25)
    panel.tick_params(labelsize=8)
    sizes = sorted({row["bytes"] for row in rows})
    if len(sizes) > 1:
        panel.set_xscale("log", base=2)
        shown = sizes[:: max(1, len(sizes) // 5)]
        panel.set_xticks(shown, [size_text(size) for size in shown])
        panel.set_xlabel("bytes", fontsize=8)
    else:
        panel.set_xticks([])
    panel.set_ylabel("µs", fontsize=8)
