"""A halo exchange by hand and by neighbourhood collectives: `.venv/bin/python bench/halo.py [--np 2,4] [--csv FILE]`.

Blocks of doubles in two and three dimensions exchange their faces (bench/halo.c): Isend and Irecv for each face,
MPI_Neighbor_alltoallw, and its persistent form; each MPI alone and with tutti, interleaved. Medians over the rounds, of the
slowest rank, in microseconds. The last columns: what the collective and its persistent form with tutti take of the time that
the same MPI takes alone by hand."""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from pathlib import Path

import startup
from tutti.host import mpis

MODES = {"alone": {}, "tutti": {"TUTTI_CHOICE": "static"}}
WAYS = ("hand", "neighbor", "persistent")
BLOCKS = "2:32,2:256,2:1024,3:8,3:32,3:96"

Key = tuple[str, int, int, int]  # MPI, ranks, dimensions, cells along an edge of a rank's block


def measure(given: argparse.Namespace, folder: Path) -> dict[Key, dict[tuple[str, str], list[float]]]:
    """Microseconds of each round by mode and way."""
    startup.MODES.update(MODES)
    values: dict[Key, dict[tuple[str, str], list[float]]] = {}
    for _ in range(given.rounds):
        for mpi in [mpis.find(name) for name in given.mpi.split(",")]:
            program = str(startup.compile_for(mpi, folder, "halo.c"))
            for ranks in map(int, given.np.split(",")):
                for mode in MODES:
                    printed = startup.run(mpi, mode, ranks, program, str(given.time_ms), "5", *given.blocks.split(","))[2]
                    rows = [line.split() for line in printed.splitlines() if line.startswith("halo ")]
                    for _, dims, edge, way, us in rows:
                        cell = values.setdefault((mpi.product, ranks, int(dims), int(edge)), {})
                        cell.setdefault((mode, way), []).append(float(us))
    return values


def row_of(key: Key, cell: dict[tuple[str, str], list[float]]) -> list[str | int]:
    """A way that the MPI does not have is an empty cell."""
    mpi, ranks, dims, edge = key
    us = {what: statistics.median(times) for what, times in cell.items()}
    times = [f"{us[mode, way]:.2f}" if (mode, way) in us else "" for mode in MODES for way in WAYS]
    by_hand = us["alone", "hand"]
    gains = [f"{us['tutti', way] / by_hand:.2f}" if ("tutti", way) in us else "" for way in WAYS[1:]]
    return [mpi, ranks, dims, edge, 8 * edge ** (dims - 1), *times, *gains]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mpi", default="mpich,openmpi,impi")
    parser.add_argument("--np", default="2,4")
    parser.add_argument("--blocks", default=BLOCKS, help="dimensions and cells along an edge of a rank's block")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-ms", type=float, default=5)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        values = measure(given, Path(folder))
    titles = ["MPI", "ranks", "dimensions", "edge", "bytes of a face", *(f"{way}, {mode}" for mode in MODES for way in WAYS),
              "neighbor / by hand alone", "persistent / by hand alone"]
    rows = [row_of(key, cell) for key, cell in values.items()]
    for row in [titles, *rows]:
        print(" ".join(f"{cell!s:>{max(len(title), 9)}}" for cell, title in zip(row, titles, strict=True)))
    if given.csv:
        with given.csv.open("w", newline="") as file:
            csv.writer(file).writerows([titles, *rows])


if __name__ == "__main__":
    main()
