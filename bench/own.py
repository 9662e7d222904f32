"""Makes bench/results/own.csv of runs of `tutti bench coll --against own --json FILE`, or a table of it.

    python bench/own.py 2=two.json 4=four.json "2 cold=cold.json" > bench/results/own.csv
    python bench/own.py --table < bench/results/own.csv

What stands before the = is the first column; rows of several files with the same one are put together. `tutti bench report`
makes the page of results from the file.
"""

import csv
import json
import math
import statistics
import sys

COLUMNS = ("ranks", "mpi", "settings", "op", "bytes", "alone", "tutti", "alone_fastest", "tutti_fastest", "again", "again_fastest")
PRODUCTS = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI"}


def cells(label: str, rows: list[dict]) -> list[dict]:
    """A cell is a call of so many bytes over one MPI at some settings: its times alone and with tutti, and where it was measured
    again the ratio then."""
    found: dict[tuple, dict] = {}
    for row in rows:
        settings = row["settings"] if row["settings"] == "defaults" else "best"
        cell = found.setdefault((row["mpi"], settings, row["op"], row["bytes"]), {})
        cell[row["tutti"], bool(row.get("again"))] = (row["us"], row["us_min"])
    result = []
    for (mpi, settings, op, size), times in found.items():
        again = [""] * 2
        if (False, True) in times:
            again = [f"{alone / own:.3f}" for alone, own in zip(times[False, True], times[True, True])]
        values = [value for pair in zip(times[False, False], times[True, False]) for value in pair]
        result.append(dict(zip(COLUMNS, [label, mpi, settings, op, size, *values, *again])))
    return result


def mean(values: list[float]) -> float:
    return math.exp(statistics.mean(math.log(value) for value in values))


def table(rows: list[dict]) -> None:
    groups: dict[tuple, list] = {}
    for row in rows:
        median, fastest = (float(row["alone" + which]) / float(row["tutti" + which]) for which in ("", "_fastest"))
        loses = min(median, fastest) < 0.97
        stays = loses and row["again"] != "" and min(float(row["again"]), float(row["again_fastest"])) < 0.97
        groups.setdefault((row["ranks"], row["mpi"], row["settings"]), []).append((median, fastest, loses, stays))
    print("| ranks | MPI, settings | geometric mean | of the fastest rounds | lowest | below 0.97 (goal: 0) | again |\n"
          "|---|---|---|---|---|---|---|")
    for (ranks, mpi, settings), all_of_it in groups.items():
        medians, fastest, low, staying = zip(*all_of_it)
        print(f"| {ranks} | {PRODUCTS[mpi]}, {settings} | {mean(medians):.2f} | {mean(fastest):.2f} | {min(medians + fastest):.2f} | "
              f"{sum(low)} | {sum(staying)} |")
    every = [cell for group in groups.values() for cell in group]
    print(f"\n{sum(cell[2] for cell in every)} of {len(every)} cells are below 0.97, and {sum(cell[3] for cell in every)} stay below")


def main(arguments: list[str]) -> None:
    if arguments == ["--table"]:
        return table(list(csv.DictReader(sys.stdin)))
    if not arguments or not all("=" in argument for argument in arguments):
        sys.exit(__doc__)
    rows = []
    for argument in arguments:
        label, path = argument.split("=", 1)
        with open(path) as file:
            rows += cells(label, json.load(file))
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: (row["ranks"], list(PRODUCTS).index(row["mpi"]), row["settings"] != "defaults",
                                                   row["op"], row["bytes"])))


if __name__ == "__main__":
    main(sys.argv[1:])
