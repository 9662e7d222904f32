"""The pictures of the documentation. Each function draws one; tools/docs/generate.py writes them to docs/pictures."""

from __future__ import annotations

import math
import re
from pathlib import Path

import charts
from svg import AMBER, GREY, INK, PALE, RED, SOFT, TEAL, Canvas

ROOT = Path(__file__).resolve().parents[2]


def all_pictures() -> dict[str, str]:
    return {"architecture.svg": architecture(), "way-of-a-call.svg": way_of_a_call(), "trees.svg": trees(), "ring.svg": ring(),
            "overlap.svg": overlap(), "results.svg": results(), **charts.pictures()}


def architecture() -> str:
    """From the program to the memory, and what goes on to the MPI."""
    c = Canvas(760, 490, "From the program to the memory")
    c.box(40, 20, 680, 46, ["your program", "C, C++, Fortran, Python; compiled long ago, unchanged"])
    c.box(40, 106, 440, 46, ["libtutti-preload", "exports the MPI's functions; needs only libc"], fill=PALE)
    c.box(40, 192, 440, 46, ["plugin for the MPI's binary interface", "an MPI call becomes a call on a team"], fill=PALE)
    c.box(40, 278, 440, 46, ["core", "teams, choice of algorithm, engine, coroutines"], fill=PALE)
    c.box(40, 364, 440, 46, ["fabric", "put, get, flags, wake-ups"], fill=PALE)
    c.box(560, 192, 160, 132, ["your MPI", "everything else,", "untouched"])
    for top in (66, 152, 238, 324):
        c.arrow((260, top), (260, top + 40))
    c.text(270, 91, "MPI_Allreduce, MPI_Bcast, ...", size=12, anchor="start", ink=SOFT)
    c.arrow((480, 129), (640, 129), (640, 192))
    c.text(650, 160, "not served", size=12, anchor="start", ink=SOFT)
    c.arrow((480, 301), (560, 301), dashed=True)
    c.text(520, 293, "pumped", size=12, ink=SOFT)
    for x, width, text, where in ((40, 250, "shared memory, cross-memory attach", "within a node"), (310, 80, "libfabric", ""),
                                  (400, 80, "verbs", "between nodes")):
        c.box(x, 436, width, 24, text, size=12)
        c.arrow((x + width / 2, 410), (x + width / 2, 436))
        c.text(x + width / 2 - (45 if x == 400 else 0), 476, where, size=12, ink=SOFT)
    return c.done()


def hops() -> list[tuple[str, int]]:
    """The hops and their instructions, from the table of docs/way-of-a-call.md."""
    page = (ROOT / "docs" / "way-of-a-call.md").read_text()
    found = re.findall(r"^\| `([\w:]+)`[^|]*\|[^|]*\|[^|]*\| (\d+) \|$", page, re.MULTILINE)
    if len(found) != 7:
        raise SystemExit("docs/way-of-a-call.md: its first table must have seven hops with instructions")
    return [(name, int(count)) for name, count in found]


def way_of_a_call() -> str:
    """The hops of an 8-byte allreduce with their instructions, and the two cache lines where the ranks meet."""
    c = Canvas(760, 400, "The way of an 8-byte MPI_Allreduce")
    layers = ["preload", "plugin", "core", "algorithm", "cells", "cells", "kernel"]
    for number, ((name, count), layer) in enumerate(zip(hops(), layers, strict=True)):
        y = 20 + number * 52
        c.box(110, y, 190, 34, name, fill=PALE)
        c.text(96, y + 22, layer, size=12, ink=SOFT, anchor="end")
        c.box(314, y + 9, count, 16, fill=TEAL, line=TEAL)
        c.text(320 + count, y + 22, f"{count}", size=12, anchor="start")
        if number:
            c.arrow((205, y - 18), (205, y))
    c.box(560, 150, 180, 60, ["own cell", "8 bytes | epoch = flag"], fill=AMBER)
    c.box(560, 270, 180, 60, ["the peer's cell", "8 bytes | epoch = flag"], fill=GREY)
    c.arrow((500, 245), (520, 245), (520, 180), (560, 180))
    c.text(528, 236, "publish", size=12, anchor="start")
    c.arrow((560, 300), (500, 300))
    c.text(505, 318, "read", size=12, anchor="start")
    c.text(650, 60, "instructions of rank 0", size=12, ink=SOFT)
    c.text(650, 78, f"{sum(count for _, count in hops())} in all (callgrind)", size=12, ink=SOFT)
    return c.done()


def tree_of(degree: int, size: int) -> dict[int, tuple[int, int]]:
    """The parent of each member but 0, and the step in which it is reached. In each step all who have the message send it to
    `degree` others."""
    found, have, step = {}, 1, 0
    while have < size:
        step += 1
        before = have
        for child in range(1, degree + 1):
            for parent in range(before):
                member = child * before + parent
                if member < size:
                    found[member] = (parent, step)
        have = min(size, before * (degree + 1))
    return found


def draw_tree(c: Canvas, degree: int, size: int, left: float, width: float, title: str) -> None:
    """Rows are steps; a subtree has as much room as it has members."""
    parents = tree_of(degree, size)
    members = {member: sum(1 for other in range(size) if member in _ancestors(other, parents)) for member in range(size)}
    place, row = {0: (left + width / 2, 70.0)}, 76
    for parent in sorted(range(size), key=lambda member: parents.get(member, (0, 0))[1]):
        children = [member for member in sorted(parents) if parents[member][0] == parent]
        x = place[parent][0] - members[parent] * width / size / 2 + width / size / 2
        inner = [child for child in children if members[child] > 1]
        leaves = [child for child in children if members[child] == 1]  # reached last: straight below their parent
        for child in inner[:len(inner) // 2] + leaves + inner[len(inner) // 2:]:
            span = members[child] * width / size
            place[child] = (x + span / 2, 70 + parents[child][1] * row)
            x += span
    c.text(left + width / 2, 28, title, bold=True)
    for member, (parent, _) in parents.items():
        (x, y), (x2, y2) = place[parent], place[member]
        length = math.dist(place[parent], place[member])
        cut = 15 / length
        c.arrow((x + (x2 - x) * cut, y + (y2 - y) * cut), (x2 - (x2 - x) * cut, y2 - (y2 - y) * cut))
    for member in range(size):
        c.circle(*place[member], 14, str(member), fill=TEAL if member == 0 else PALE, ink="#ffffff" if member == 0 else INK)


def _ancestors(member: int, parents: dict[int, tuple[int, int]]) -> set[int]:
    found = {member}
    while member in parents:
        member = parents[member][0]
        found.add(member)
    return found


def trees() -> str:
    """The same eight ranks in three steps, and sixteen in two."""
    c = Canvas(980, 360, "A binomial tree and a tree of degree 3")
    draw_tree(c, 1, 8, 60, 330, "binomial: 8 ranks, 3 steps")
    draw_tree(c, 3, 16, 420, 540, "degree 3: 16 ranks, 2 steps")
    for step in range(1, 4):
        c.text(12, 75 + step * 76, f"step {step}", size=12, ink=SOFT, anchor="start")
    c.text(490, 345, "In a step everybody who has the message sends it to one other rank, or to three.", size=12, ink=SOFT)
    return c.done()


def ring() -> str:
    """A multicast that did not reach one rank, and the put of its neighbour."""
    c = Canvas(800, 360, "A ring repairs what a multicast has lost")
    centre, radius, size, lost = (230, 180), 130, 8, 3
    at = [(centre[0] + radius * math.sin(2 * math.pi * i / size), centre[1] - radius * math.cos(2 * math.pi * i / size))
          for i in range(size)]
    for i in range(1, size):
        (x, y), (x2, y2) = at[0], at[i]
        length = math.dist(at[0], at[i])
        end = (x2 - (x2 - x) * 20 / length, y2 - (y2 - y) * 20 / length)
        middle = ((x + x2) / 2, (y + y2) / 2)
        if i == lost:
            c.arrow((x, y), middle, dashed=True, ink=RED, head=False)
            c.text(middle[0] + 4, middle[1] + 6, "✕", ink=RED, size=20)
        else:
            c.arrow((x, y), end, dashed=True)
    (x, y), (x2, y2) = at[lost - 1], at[lost]
    cut = 20 / math.dist(at[lost - 1], at[lost])
    c.arrow((x + (x2 - x) * cut + 6, y + (y2 - y) * cut), (x2 - (x2 - x) * cut + 6, y2 - (y2 - y) * cut), width=3, ink=TEAL)
    c.text(at[2][0] + 24, (at[2][1] + at[3][1]) / 2 + 10, "put", ink=TEAL, bold=True, anchor="start")
    for i, (x, y) in enumerate(at):
        fill = TEAL if i == 0 else "#ffcdd2" if i == lost else PALE
        c.circle(x, y, 18, str(i), fill=fill, ink="#ffffff" if i == 0 else INK)
    for number, text in enumerate(["1. Rank 0 casts the message in one datagram.", "2. It gets lost on the way to rank 3.",
                                   "3. Rank 2 has it and puts it to rank 3:", "    every rank does that for the next one.",
                                   "No timeout, no acknowledgement;", "the root has left long ago."]):
        c.text(430, 120 + number * 26, text, anchor="start")
    return c.done()


def overlap() -> str:
    """Who moves the data while a program computes, in three ways to run one non-blocking collective."""
    c = Canvas(760, 330, "Overlap: who moves the data while the program computes")
    rows = [("moved in the wait", "program", [(120, 300, "computes", GREY), (420, 200, "MPI_Wait: moves data", AMBER)], None, []),
            ("progress thread", "program", [(120, 300, "computes", GREY), (420, 14, "", AMBER)], "thread",
             [(126, 200, "moves data", TEAL)]),
            ("dedicated processor", "program", [(120, 300, "computes", GREY), (420, 14, "", AMBER)], "helper's core",
             [(126, 200, "moves data, folds", TEAL)])]
    y = 30
    for title, first, bars, second, more in rows:
        c.text(12, y, title, anchor="start", bold=True)
        for name, line, offset in ((first, bars, 10), (second, more, 42)):
            if not name:
                continue
            c.text(110, y + offset + 18, name, size=12, ink=SOFT, anchor="end")
            for x, width, text, fill in line:
                c.box(x, y + offset, width, 26, text, fill=fill, size=12, ink="#ffffff" if fill == TEAL else INK)
        y += 74 if second is None else 106
    c.arrow((120, 316), (700, 316))
    c.text(712, 321, "time", size=12, anchor="start", ink=SOFT)
    c.text(120, 308, "MPI_Iallreduce", size=11, anchor="start", ink=SOFT)
    c.text(420, 308, "MPI_Wait", size=11, anchor="start", ink=SOFT)
    return c.done()


def results() -> str:
    """Geometric means of each MPI alone by the same with tutti, from bench/results/own.csv, on a logarithmic axis."""
    from tutti.bench import summaries

    groups = summaries.own_groups(ROOT / "bench" / "results")
    rows = [row for row in groups if row["settings"] == "best" or row["best_is_default"]]
    high = 19
    c = Canvas(760, 80 + high * len(rows), "Each MPI with tutti, times as fast as alone")
    zero, per = 330, 300  # pixels: of 1, and of a factor of 10 above

    def at(value: float) -> float:
        return zero + per * math.log10(value)

    c.text(20, 26, "Each MPI at its best settings with tutti: times as fast as without (geometric mean)", bold=True,
           anchor="start")
    for value in (0.5, 1, 2, 5, 10):
        c.arrow((at(value), 44), (at(value), 54 + high * len(rows)), head=False, width=2 if value == 1 else 0.5)
        c.text(at(value), 70 + high * len(rows), f"{value:g}", size=11, ink=SOFT)
    for number, row in enumerate(rows):
        y, value = 48 + high * number, row["mean"]
        c.text(225, y + 13, f"{layout(row['ranks'])}, {row['product']}", size=12, anchor="end")
        colour = TEAL if value >= 1 else RED
        c.box(min(at(value), zero), y + 2, abs(at(value) - zero), 13, fill=colour, line=colour)
        c.text(max(at(value), zero) + 8, y + 13, f"{value:.2f}", size=12, anchor="start")
    return c.done()


def layout(ranks: str) -> str:
    """"2 cold" is "2 ranks, cold"; a lab names its layout."""
    count, _, how = ranks.partition(" ")
    return f"{count} ranks{', ' * bool(how)}{how}" if count.isdigit() else ranks
