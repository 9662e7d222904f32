"""Runs the conjugate-gradient solver under each MPI, alone and with tutti, and compares them: a table,
and a picture in demo-out/cg.png.

    .venv/bin/python examples/cg/demo.py [--rounds 5] [--seconds 0.3]"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tutti import command as command_of_tutti
from tutti.bench import peers, program
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.host.mpis import Mpi

HERE = Path(__file__).resolve().parent
OUT = HERE.parent.parent / "demo-out"
SIDE = 64  # small on purpose: where a problem is spread thin, communication is what counts
LIMIT_S = 120


@dataclass(eq=False)
class Case:
    """One MPI and one number of ranks, alone and with tutti."""

    mpi: Mpi
    ranks: int
    alone: list[dict[str, Any]] = field(default_factory=list)
    with_tutti: list[dict[str, Any]] = field(default_factory=list)

    def median(self, tutti: bool, key: str) -> float:
        return statistics.median(run[key] for run in (self.with_tutti if tutti else self.alone))

    def sum_us(self, tutti: bool) -> float:
        return 1e6 * self.median(tutti, "allreduce_s") / self.median(tutti, "allreduces")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    console = Console(stderr=True)
    try:
        cases = run_all(options.rounds, options.seconds, console)
    except (Failure, UserError) as error:
        console.print(f"demo: {error}", highlight=False, soft_wrap=True)
        return 1
    OUT.mkdir(exist_ok=True)
    (OUT / "cg.json").write_text(json.dumps([
        {"mpi": case.mpi.name, "np": case.ranks, "alone": case.alone, "tutti": case.with_tutti}
        for case in cases], indent=1) + "\n")
    draw(cases, OUT / "cg.png")
    show(cases)
    return 0


def run_all(rounds: int, seconds: float, console: Console) -> list[Case]:
    processors = machine.cpus().usable
    chosen = [mpis.find(name) for name in ("mpich", "openmpi", "impi")]
    programs = {mpi: program.compile_for(mpi, HERE / "cg.c") for mpi in chosen}
    cases = [Case(mpi, ranks) for ranks in (processors, 2 * processors) for mpi in chosen]
    for number in range(rounds):
        for case in cases:
            for tutti in (False, True):
                label = f"{case.mpi.product}{' with tutti' if tutti else ''}, {case.ranks} ranks"
                with console.status(f"round {number + 1} of {rounds}: {label}"):
                    said, numbers = run_one(case, tutti, programs[case.mpi], seconds, processors)
                (case.with_tutti if tutti else case.alone).append(numbers)
                if number == 0:
                    console.print(f"{label}\n  " + "\n  ".join(said), highlight=False, soft_wrap=True)
    return cases


def run_one(case: Case, tutti: bool, binary: Path, seconds: float,
            processors: int) -> tuple[list[str], dict[str, Any]]:
    """One run: what the program printed, and its figures. Raises Failure when it did not succeed."""
    settings = peers.best_settings(case.mpi, case.ranks, processors)
    with tempfile.TemporaryDirectory(prefix="tutti-demo-") as folder:
        out = Path(folder) / "cg.json"
        arguments = [str(binary), "--side", str(SIDE), "--seconds", str(seconds), "--json", str(out)]
        command = peers.command_line(case.mpi, case.ranks, settings, arguments)
        if tutti:
            command = [*command_of_tutti(), "run", *command]
        try:
            answer = subprocess.run(command, env=peers.environment(case.mpi, settings), capture_output=True,
                                    text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Failure(f"not finished after {LIMIT_S} s: {' '.join(command)}") from None
        said = (answer.stdout + answer.stderr).strip().splitlines()
        if answer.returncode != 0:
            raise Failure(f"exit status {answer.returncode} of {' '.join(command)}\n" + "\n".join(said[-15:]))
        return said, json.loads(out.read_text())


def show(cases: list[Case]) -> None:
    table = Table(title=f"Conjugate gradients, {SIDE} x {SIDE} points: medians", title_justify="left", box=None,
                  pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("MPI", "ranks", "one solve, ms", "with tutti", "faster by", "one sum, us", "with tutti", "faster by"):
        table.add_column(name, justify="left" if name == "MPI" else "right", no_wrap=True)
    for case in cases:
        total, fast = case.median(False, "total_s"), case.median(True, "total_s")
        one, short = case.sum_us(False), case.sum_us(True)
        table.add_row(f"{case.mpi.product} {case.mpi.version}", str(case.ranks), f"{1e3 * total:.2f}",
                      f"{1e3 * fast:.2f}", f"{total / fast:.2f}", f"{one:.2f}", f"{short:.2f}", f"{one / short:.2f}")
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(table)
    residual = max(run["residual"] for case in cases for run in case.alone + case.with_tutti)
    console.print(f"every run's answer was checked; the largest relative residual was {residual:.1e}\n"
                  f"picture: {os.path.relpath(OUT / 'cg.png')}", highlight=False, soft_wrap=True)


def draw(cases: list[Case], path: Path) -> None:
    """Two panels: the whole solve, and one sum over all ranks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    places = range(len(cases))
    values = [("one solve, ms", lambda case, tutti: 1e3 * case.median(tutti, "total_s")),
              ("one sum over all ranks, µs", lambda case, tutti: case.sum_us(tutti))]
    for panel, (title, value) in zip(panels, values, strict=True):
        for tutti, shift, colour in ((False, -0.2, "#9a9a9a"), (True, 0.2, "#1b6ca8")):
            bars = panel.bar([place + shift for place in places], [value(case, tutti) for case in cases], 0.38,
                             color=colour, label="with tutti" if tutti else "MPI alone")
            panel.bar_label(bars, fmt=lambda us: f"{us:,.0f}" if us >= 100 else f"{us:.3g}", fontsize=7)
        panel.set_xticks(list(places), [f"{case.mpi.product}\n{case.ranks} ranks" for case in cases], fontsize=8)
        panel.set_yscale("log")
        panel.set_title(title, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
