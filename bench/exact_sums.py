"""What exact sums cost beside plain ones: `.venv/bin/python bench/exact_sums.py [--np 2,4,8] [--csv FILE]`.

MPI_Allreduce with MPI_SUM of double and float, 8 bytes to 1 MiB, under tutti: plain (TUTTI_CHOICE=static), in a fixed order and
exact. The three are interleaved; medians over the rounds, the slowest rank's. From 64 KiB on exact is to take at most 3 times the
plain time; the exit status says so."""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from pathlib import Path

import startup
from tutti.host import mpis

MODES = {"plain": {"TUTTI_CHOICE": "static"}, "fixed order": {"TUTTI_FIXED_ORDER": "1"}, "exact": {"TUTTI_FIXED_ORDER": "exact"}}
SIZES = [8 << power for power in range(18)]
LARGE, GOAL = 64 << 10, 3.0

Key = tuple[str, int, str, int]  # MPI, ranks, type, bytes


def measure(given: argparse.Namespace, folder: Path) -> dict[Key, dict[str, list[float]]]:
    """Microseconds of each round by mode."""
    startup.MODES.update(MODES)
    values: dict[Key, dict[str, list[float]]] = {}
    for _ in range(given.rounds):
        for mpi in [mpis.find(name) for name in given.mpi.split(",")]:
            program = str(startup.compile_for(mpi, folder, "exact_sums.c"))
            for ranks in map(int, given.np.split(",")):
                for kind in given.types.split(","):
                    for mode in MODES:
                        words = [kind, str(given.time_ms), "5", *map(str, SIZES)]
                        printed = startup.run(mpi, mode, ranks, program, *words)[2]
                        rows = [line.split() for line in printed.splitlines() if line.startswith("exact_sums ")]
                        for _, size, us in rows:
                            cell = values.setdefault((mpi.product, ranks, kind, int(size)), {})
                            cell.setdefault(mode, []).append(float(us))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mpi", default="mpich")
    parser.add_argument("--np", default="2,4,8")
    parser.add_argument("--types", default="double,float")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-ms", type=float, default=5)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        values = measure(given, Path(folder))
    rows = []
    for (mpi, ranks, kind, size), cell in values.items():
        us = {mode: statistics.median(cell[mode]) for mode in MODES}
        rows.append([mpi, ranks, kind, size, *(f"{us[mode]:.2f}" for mode in MODES), f"{us['exact'] / us['plain']:.2f}"])
    titles = ["MPI", "ranks", "type", "bytes", *MODES, "exact / plain"]
    widths = [10, 6, 7, 8, 10, 12, 10, 14]
    for row in [titles, *rows]:
        print(" ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths)))
    if given.csv:
        with given.csv.open("w", newline="") as file:
            csv.writer(file).writerows([titles, *rows])
    dear = [row for row in rows if row[3] >= LARGE and float(row[-1]) > GOAL]
    print(f"from 64 KiB on: {len(dear)} of {sum(row[3] >= LARGE for row in rows)} cells above {GOAL}")
    raise SystemExit(1 if dear else 0)


if __name__ == "__main__":
    main()
