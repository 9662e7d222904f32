"""Tables that are computed from measurements which are kept cell by cell in bench/results: the collectives beside the peers
(coll.csv, coll-fastest.csv), each MPI beside itself (own.csv), predictions (predict.csv)."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MPIS = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI"}
PEERS_LIMIT, OWN_LIMIT = 0.95, 0.97  # below these a cell counts as lost


@dataclass(frozen=True)
class Table:
    columns: list[str]
    rows: list[list[str]]


def load(path: Path) -> Table:
    with path.open(newline="") as file:
        columns, *rows = list(csv.reader(file))
    return Table(columns, rows)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.mean(math.log(value) for value in values))


# ---- collectives beside the peers ----------------------------------------------------------------


def peer_ratios(path: Path, ranks: int, which: str = "") -> tuple[dict[str, list[float]], list[float]]:
    """The best peer's time by tutti's, by cell: over each MPI, and with the best of these. `which`: "" or "_fastest" rounds."""
    over: dict[str, list[float]] = {mpi: [] for mpi in MPIS}
    best = []
    for row in rows_of(path):
        if int(row["ranks"]) != ranks:
            continue
        peer = min(float(row[mpi + which]) for mpi in MPIS)
        ours = {mpi: peer / float(row[f"tutti_{mpi}{which}"]) for mpi in MPIS}
        for mpi in MPIS:
            over[mpi].append(ours[mpi])
        best.append(max(ours.values()))
    return over, best


def collectives(data: Path) -> Table:
    rows = []
    for ranks in (2, 4, 8):
        over, best = peer_ratios(data / "coll.csv", ranks)
        every = [ratio for mpi in MPIS for ratio in over[mpi]]
        rows.append([str(ranks), f"{mean(best):.2f}", f"{min(best):.2f}", *(f"{mean(over[mpi]):.2f}" for mpi in MPIS),
                     f"{mean(every):.2f}", f"{min(every):.2f}", below(every)])
    return Table(["ranks", "best of tutti", "its lowest cell", *(f"over {name}" for name in MPIS.values()), "over all",
                  "lowest cell", f"cells below {PEERS_LIMIT}"], rows)


def below(ratios: list[float]) -> str:
    return f"{sum(ratio < PEERS_LIMIT for ratio in ratios)} of {len(ratios)}"


def fastest_rounds(data: Path) -> Table:
    rows = []
    for ranks in (2, 4, 8):
        over, best = peer_ratios(data / "coll-fastest.csv", ranks)
        every = [ratio for mpi in MPIS for ratio in over[mpi]]
        _, fastest = peer_ratios(data / "coll-fastest.csv", ranks, "_fastest")
        rows.append([str(ranks), f"{mean(best):.2f}", f"{min(best):.2f}", f"{mean(every):.2f}", f"{min(every):.2f}",
                     below(every), f"{mean(fastest):.2f}", f"{min(fastest):.2f}"])
    return Table(["ranks", "medians: best of tutti", "its lowest cell", "over all", "lowest cell", f"cells below {PEERS_LIMIT}",
                  "fastest rounds: best of tutti", "its lowest cell "], rows)


# ---- each MPI beside itself ----------------------------------------------------------------------


def own_groups(data: Path) -> list[dict[str, Any]]:
    """By ranks, MPI and settings: means of alone by with tutti, the lowest cell, how many are lost, and how many stay so."""
    groups: dict[tuple[str, str, str], list] = {}
    for row in rows_of(data / "own.csv"):
        median, fastest = (float(row["alone" + which]) / float(row["tutti" + which]) for which in ("", "_fastest"))
        loses = min(median, fastest) < OWN_LIMIT
        stays = loses and row["again"] != "" and min(float(row["again"]), float(row["again_fastest"])) < OWN_LIMIT
        groups.setdefault((row["ranks"], row["mpi"], row["settings"]), []).append((median, fastest, loses, stays))
    found = []
    for (ranks, mpi, settings), cells in groups.items():
        medians, fastest, low, staying = zip(*cells, strict=True)
        found.append({"ranks": ranks, "product": MPIS[mpi], "settings": settings, "mean": mean(medians), "fastest": mean(fastest),
                      "lowest": min(medians + fastest), "cells": len(cells), "low": sum(low), "staying": sum(staying),
                      "best_is_default": (ranks, mpi, "best") not in groups})
    return found


def own(data: Path) -> Table:
    groups = own_groups(data)
    rows = [[group["ranks"], group["product"], group["settings"], *(f"{group[key]:.2f}" for key in ("mean", "fastest", "lowest")),
             *(str(group[key]) for key in ("cells", "low", "staying"))] for group in groups]
    rows.append(["all", "", "", "", "", "", *(str(sum(group[key] for group in groups)) for key in ("cells", "low", "staying"))])
    return Table(["ranks", "MPI", "settings", "geometric mean", "of the fastest rounds", "lowest", "cells", f"below {OWN_LIMIT}",
                  "below again"], rows)


# ---- predictions ---------------------------------------------------------------------------------


def prediction_errors(data: Path, latency: str, nodes: int | None = None, most_bytes: int | None = None) -> list[float]:
    return [abs(float(row["predicted_us"]) / float(row["us"]) - 1) for row in rows_of(data / "predict.csv")
            if row["latency"] == latency and nodes in (None, int(row["nodes"]))
            and (most_bytes is None or int(row["bytes"]) <= most_bytes)]


def predictions(data: Path) -> Table:
    rows = []
    for latency, nodes in (("500us", None), *(("5ms", nodes) for nodes in (2, 4, 8, 16))):
        off = prediction_errors(data, latency, nodes)
        rows.append([latency, str(nodes) if nodes else "2, 4, 8", f"{sum(error <= 0.1 for error in off)} of {len(off)}",
                     f"{statistics.median(off) * 100:.1f} %", f"{max(off) * 100:.1f} %"])
    return Table(["latency", "nodes", "within 10 %", "median error", "largest"], rows)


# ---- tables of which a mean is wanted ------------------------------------------------------------


def best_of(path: Path, peer: str, ours: list[str]) -> list[float]:
    """By row: the peer's time by the best of ours."""
    return [float(row[peer]) / min(float(row[column]) for column in ours) for row in rows_of(path) if row[peer]]


def nodes_ratios(data: Path, layout: str) -> list[float]:
    ours = [f"{layout}: tutti over {mpi}" for mpi in ("MPICH", "Open MPI")]
    return best_of(data / "nodes" / "peers.csv", f"{layout}: best peer", ours)


def message_ratios(data: Path) -> list[float]:
    return best_of(data / "messages" / "speed.csv", "best peer", [f"tutti over {mpi}" for mpi in MPIS.values()])


COMPUTED = {"collectives": collectives, "fastest rounds": fastest_rounds, "own": own, "predictions": predictions}
SOURCES = {"collectives": "coll.csv", "fastest rounds": "coll-fastest.csv", "own": "own.csv", "predictions": "predict.csv"}
# Single values, for goals.
VALUES = {
    "collectives, mean": lambda data, ranks: mean(peer_ratios(data / "coll.csv", ranks)[1]),
    "collectives, lowest": lambda data, ranks: min(peer_ratios(data / "coll.csv", ranks)[1]),
    "fastest rounds, mean": lambda data, ranks: mean(peer_ratios(data / "coll-fastest.csv", ranks, "_fastest")[1]),
    "own, low": lambda data: sum(group["low"] for group in own_groups(data)),
    "own, staying": lambda data: sum(group["staying"] for group in own_groups(data)),
    "nodes, mean": lambda data, layout: mean(nodes_ratios(data, layout)),
    "nodes, lowest": lambda data, layout: min(nodes_ratios(data, layout)),
    "messages, mean": lambda data: mean(message_ratios(data)),
    "predictions, off": lambda data, latency, nodes, most: sum(
        error > 0.1 for count in nodes for error in prediction_errors(data, latency, count, most)),
}
