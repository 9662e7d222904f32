"""The pictures of docs/results/papers.md: of each paper one figure, its figures as dots or dashed lines and ours as curves
(bench/results/paper-curves.csv, which bench/paper_curves.py makes)."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from svg import AMBER, INK, RED, SOFT, TEAL, Canvas

CURVES = Path(__file__).resolve().parents[2] / "bench" / "results" / "paper-curves.csv"
INKS = (TEAL, AMBER, "#5e35b1", "#1e88e5", "#6d4c41", "#43a047")
WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 760, 360, 64, 48, 440, 250


@dataclass
class Chart:
    """`x` and `y`: the ends of the axes and what is marked on them; logarithmic where `log_x`, `log_y`."""

    title: str
    x_title: str
    x: tuple[float, float, list[float]]
    y: tuple[float, float, list[float]]
    log_x: bool = False
    log_y: bool = False
    canvas: Canvas = field(init=False)
    named: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        c = self.canvas = Canvas(WIDTH, HEIGHT, self.title)
        c.text(20, 26, self.title, bold=True, anchor="start")
        bottom = TOP + PLOT_HEIGHT
        for value in self.x[2]:
            c.arrow((self.at_x(value), bottom), (self.at_x(value), bottom + 5), head=False, width=1)
            c.text(self.at_x(value), bottom + 20, f"{value:,g}", size=11, ink=SOFT)
        for value in self.y[2]:
            c.arrow((LEFT, self.at_y(value)), (LEFT + PLOT_WIDTH, self.at_y(value)), head=False, width=0.4, ink=SOFT)
            c.text(LEFT - 8, self.at_y(value) + 4, f"{value:,g}", size=11, ink=SOFT, anchor="end")
        c.arrow((LEFT, TOP), (LEFT, bottom), (LEFT + PLOT_WIDTH, bottom), head=False)
        c.text(LEFT + PLOT_WIDTH / 2, bottom + 42, self.x_title, size=12, ink=SOFT)

    def at_x(self, value: float) -> float:
        return LEFT + PLOT_WIDTH * _share(value, self.x, self.log_x)

    def at_y(self, value: float) -> float:
        return TOP + PLOT_HEIGHT * (1 - _share(value, self.y, self.log_y))

    def curve(self, name: str, points: Iterable[tuple[float, float]]) -> None:
        ink = INKS[self.named % len(INKS)]
        self.canvas.arrow(*[(self.at_x(x), self.at_y(y)) for x, y in points], ink=ink, head=False, width=2)
        self._name(name, ink, dashed=False)

    def published(self, name: str, points: Iterable[tuple[float, float]], line: bool = False) -> None:
        """Dots, or a dashed line where the paper states how something goes and not where it is."""
        places = [(self.at_x(x), self.at_y(y)) for x, y in points]
        if line:
            self.canvas.arrow(*places, ink=RED, dashed=True, head=False)
        for x, y in places if not line else []:
            self.canvas.circle(x, y, 4, "", fill=RED, line=RED)
        self._name(f"paper: {name}", RED, dashed=line, dot=not line)

    def _name(self, name: str, ink: str, dashed: bool, dot: bool = False) -> None:
        x, y = LEFT + PLOT_WIDTH + 20, TOP + 12 + 22 * self.named
        if dot:
            self.canvas.circle(x + 11, y, 4, "", fill=ink, line=ink)
        else:
            self.canvas.arrow((x, y), (x + 22, y), ink=ink, head=False, width=2, dashed=dashed)
        self.canvas.text(x + 30, y + 4, name, size=12, anchor="start", ink=INK)
        self.named += 1


def _share(value: float, axis: tuple[float, float, list[float]], logarithmic: bool) -> float:
    low, high = axis[0], axis[1]
    if logarithmic:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def curves(picture: str) -> dict[str, list[tuple[float, float]]]:
    """By name, in the order of the file."""
    found: dict[str, list[tuple[float, float]]] = {}
    with CURVES.open() as file:
        for row in csv.DictReader(file):
            if row["picture"] == picture:
                found.setdefault(row["curve"], []).append((float(row["x"]), float(row["y"])))
    return found


def via() -> Chart:
    chart = Chart("VIA-2003: what 4 bytes save against send/receive, %", "nodes",
                  (4, 1024, [4, 16, 64, 256, 1024]), (0, 50, [0, 10, 20, 30, 40, 50]), log_x=True)
    for name, points in curves("via").items():
        chart.curve(name, points)
    chart.published("broadcast", [(16, 19), (512, 16), (1024, 16)])
    chart.published("allreduce", [(16, 38), (512, 40), (1024, 41)])
    return chart


def rndv() -> Chart:
    chart = Chart("RNDV-2006: the receiver's W/T, 64 KiB", "computation W, in times of the message alone",
                  (0, 4, [0, 1, 2, 3, 4]), (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]))
    for name, points in curves("rndv").items():
        chart.curve(name, points)
    steps = [step / 20 for step in range(1, 81)]
    chart.published("complete overlap", [(w, w / max(w, 1)) for w in steps], line=True)
    chart.published("none", [(w, w / (1 + w)) for w in steps], line=True)
    return chart


def mcast() -> Chart:
    chart = Chart("MCAST-2007: mean completion of one byte, in sends", "nodes",
                  (4, 10000, [4, 16, 64, 128, 1000, 10000]), (0, 12, [0, 2, 4, 6, 8, 10, 12]), log_x=True)
    for name, points in curves("mcast").items():
        chart.curve(name, points)
    chart.published("two sends", [(4, 2), (10000, 2)], line=True)
    return chart


def allgather() -> Chart:
    chart = Chart("ALLGATHER-2006: times as fast as send/receive, 32 x 2", "bytes of a process",
                  (1, 512, [1, 4, 16, 64, 256, 512]), (0.8, 2.2, [0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]), log_x=True)
    for name, points in curves("allgather").items():
        chart.curve(name, points)
    chart.published("most of A, 1.39", [(1, 1.39), (512, 1.39)], line=True)
    chart.published("most of B, 1.82", [(1, 1.82), (512, 1.82)], line=True)
    return chart


def cdcp() -> Chart:
    chart = Chart("CDCP-2008: allreduce of 8 bytes, 512 processes, us", "dedicated processors",
                  (1, 256, [1, 2, 4, 8, 16, 32, 64, 128, 256]), (30, 4000, [30, 100, 300, 1000, 3000]), log_x=True, log_y=True)
    for name, points in curves("cdcp").items():
        chart.curve(name, points)
    chart.published("figure 10", [(1, 3500), (16, 95), (64, 40), (128, 40)])
    return chart


CHARTS: dict[str, Callable[[], Chart]] = {"via": via, "rndv": rndv, "mcast": mcast, "allgather": allgather, "cdcp": cdcp}


def pictures() -> dict[str, str]:
    return {f"paper-{name}.svg": chart().canvas.done() for name, chart in CHARTS.items()}
