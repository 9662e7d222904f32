"""The means that docs/results.md gives are those of the measurements in bench/results."""

import csv
import math
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIS = ("mpich", "openmpi", "impi")


def rows(name):
    with (ROOT / "bench" / "results" / name).open() as file:
        return list(csv.DictReader(file))


def page():
    """Whatever is bold there."""
    return (ROOT / "docs" / "results.md").read_text().replace("**", "")


def cells_of(beginning):
    """Of the line of a table that begins like that."""
    found = [line for line in page().splitlines() if line.startswith(beginning)]
    assert len(found) == 1, beginning
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def mean(values):
    return math.exp(statistics.mean(math.log(value) for value in values))


def ratios(name, ranks, which=""):
    """To the best peer, by cell: with tutti over each MPI, and with the best of these."""
    over, best = {mpi: [] for mpi in MPIS}, []
    for row in rows(name):
        if int(row["ranks"]) != ranks:
            continue
        peer = min(float(row[mpi + which]) for mpi in MPIS)
        ours = {mpi: peer / float(row[f"tutti_{mpi}{which}"]) for mpi in MPIS}
        for mpi in MPIS:
            over[mpi].append(ours[mpi])
        best.append(max(ours.values()))
    return over, best


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_collectives(ranks):
    over, best = ratios("coll.csv", ranks)
    every = [ratio for mpi in MPIS for ratio in over[mpi]]
    by_mpi = " | ".join(f"{mean(over[mpi]):.2f}" for mpi in MPIS)
    assert len(best) == 34
    cells = cells_of(f"| {ranks} | {by_mpi} |")
    assert cells[4] == f"{mean(every):.2f}, {min(every):.2f}"
    assert cells[5] == str(sum(ratio < 0.95 for ratio in every))
    assert cells[6].startswith(f"{mean(best):.2f}")
    assert cells[7].startswith(f"{min(best):.2f}")


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_fastest_rounds(ranks):
    over, best = ratios("coll-fastest.csv", ranks)
    every = [ratio for mpi in MPIS for ratio in over[mpi]]
    _, fastest = ratios("coll-fastest.csv", ranks, "_fastest")
    low = sum(ratio < 0.95 for ratio in every)
    cells = cells_of(f"| {ranks} | {mean(best):.2f}, {min(best):.2f} |")
    assert cells[2:] == [f"{mean(every):.2f}, {min(every):.2f}, {low}", f"{mean(fastest):.2f}, {min(fastest):.2f}"]


def test_each_mpi_against_itself():
    """The groups of the page's table in its order, and what it says below."""
    groups, low, staying = {}, 0, 0
    for row in rows("own.csv"):
        median, fastest = (float(row["alone" + which]) / float(row["tutti" + which]) for which in ("", "_fastest"))
        loses = min(median, fastest) < 0.97
        stays = loses and row["again"] != "" and min(float(row["again"]), float(row["again_fastest"])) < 0.97
        groups.setdefault((row["ranks"], row["mpi"], row["settings"]), []).append((median, fastest, loses, stays))
        low, staying = low + loses, staying + stays
    products = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI"}
    for (ranks, mpi, settings), cells in groups.items():
        line = [f"{mean(cell[0] for cell in cells):.2f}", f"{mean(cell[1] for cell in cells):.2f}",
                f"{min(min(cell[:2]) for cell in cells):.2f}", str(sum(cell[2] for cell in cells)), str(sum(cell[3] for cell in cells))]
        assert cells_of(f"| {ranks} | {products[mpi]}, {settings} |")[2:] == line
    assert f"{low} of {sum(map(len, groups.values()))} cells are below 0.97, and {staying} stay below" in page()


def errors(latency, nodes=None):
    return [abs(float(row["predicted_us"]) / float(row["us"]) - 1) for row in rows("predict.csv")
            if row["latency"] == latency and nodes in (None, int(row["nodes"]))]


def summary(off):
    return f"{sum(error <= 0.1 for error in off)} of {len(off)}"


def test_predictions():
    off = errors("500us")
    assert (f"{summary(off)} are within 10 %, the paper's standard; median {statistics.median(off) * 100:.0f} %, "
            f"largest {max(off) * 100:.0f} %") in page()


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_predictions_at_a_high_latency(nodes):
    off = errors("5ms", nodes)
    cells = cells_of(f"| {nodes} | {summary(off)} |")
    assert cells[2:4] == [f"{statistics.median(off) * 100:.1f} %", f"{max(off) * 100:.1f} %"]
