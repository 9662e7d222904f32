"""Rounds of launches of a benchmark program, in random order: what `bench p2p` and `bench overlap` share."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from tutti import command as command_of_tutti
from tutti.bench import peers, program, start, texts
from tutti.errors import Failure, UserError
from tutti.host import machine
from tutti.host.mpis import Mpi

SLOWEST_CELL_S = 10.0  # for one cell, whatever its budget: an oversubscribed MPI may need it


@dataclass(frozen=True, eq=False)  # each one is its own key
class Launch:
    """One way of running the program: an MPI by itself in one of its ways, or tutti over it."""

    mpi: Mpi
    ranks: int
    tutti: bool
    way: str                        # "native", "progress_thread", or a protocol of tutti's
    settings: peers.Settings
    variables: dict[str, str] = field(default_factory=dict)  # besides the settings

    def title(self) -> str:
        return f"{'tutti over ' if self.tutti else ''}{self.mpi.product}, {self.way}"

    def settings_text(self) -> str:
        return " ".join([self.settings.text(), *(f"{name}={value}" for name, value in self.variables.items())])


@dataclass(frozen=True)
class Plan:
    """A program, its arguments, and how often each launch is made."""

    source: str
    arguments: list[str]
    cells: int          # that the program measures
    cell_s: float       # expected for one of them
    rounds: int
    seed: int
    lab: texts.LabRequest | None = None

    def limit_s(self) -> float:
        return start.START_S + self.cells * (SLOWEST_CELL_S + 4 * self.cell_s)


def check_output(path: Path | None) -> None:
    """Before hours are spent measuring. Raises UserError."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def settings_for(mpi: Mpi, ranks: int, lab: texts.LabRequest | None) -> peers.Settings:
    return peers.lab_settings(mpi) if lab else peers.best_settings(mpi, ranks, machine.cpus().usable)


def command(plan: Plan, launch: Launch, binary: Path, out: Path) -> list[str]:
    words = peers.command_line(launch.mpi, launch.ranks, launch.settings,
                               [str(binary), *plan.arguments, "--out", str(out)])
    return [*command_of_tutti(), "run", *words] if launch.tutti else words


def run(plan: Plan, launches: list[Launch], console: Console, dry_run: bool) -> dict[Launch, list[dict[str, Any]]]:
    """What the program wrote, by launch. Raises Failure when a launch fails or a result was wrong."""
    programs = {launch.mpi: program.compile_for(launch.mpi, program.source(plan.source)) for launch in launches}
    console.print(f"seed {plan.seed}, {plan.rounds} rounds of {len(launches)} launches, "
                  f"{machine.cpus().usable} processors"
                  + (f"; in a lab of {plan.lab.nodes} nodes, latency {plan.lab.latency}, rate {plan.lab.rate}"
                     if plan.lab else ""), highlight=False)
    for launch in launches:
        console.print(f"  {launch.title()}: {launch.settings_text()}", highlight=False, soft_wrap=True)
    found: dict[Launch, list[dict[str, Any]]] = {launch: [] for launch in launches}
    if dry_run:
        for launch in launches:
            print(shlex.join(command(plan, launch, programs[launch.mpi], Path("OUT"))))
        return found
    order = random.Random(plan.seed)
    with (tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder, start.progress(console) as bar,
          plan.lab.open() if plan.lab else contextlib.nullcontext() as lab):
        task = bar.add_task("", total=plan.rounds * len(launches))
        for _ in range(plan.rounds):
            for launch in order.sample(launches, len(launches)):
                bar.update(task, description=launch.title())
                found[launch] += _measure_patiently(plan, launch, programs[launch.mpi], Path(folder) / "cells.json", lab, console)
                bar.advance(task)
        if lab is not None:
            late = lab.switch_counters()["late"]
            console.print(f"the lab delivered {late['mean_us']:.0f} us late on average, {late['max_us']:.0f} at most",
                          highlight=False)
    return found


def medians(plan: Plan, launch: Launch, console: Console) -> dict[tuple[str, int], float]:
    """Of one launch alone: microseconds by (operation, bytes), medians over the rounds. Raises Failure."""
    cells: dict[tuple[str, int], list[float]] = {}
    for line in run(plan, [launch], console, dry_run=False)[launch]:
        cells.setdefault((line["op"], line["bytes"]), []).append(statistics.median(line["us"]))
    return {cell: statistics.median(values) for cell, values in cells.items()}


def _measure_patiently(plan: Plan, launch: Launch, binary: Path, out: Path, lab: Any, console: Console) -> list[dict[str, Any]]:
    """A peer that fails by itself is started once more, and that is said (seen: Intel MPI's progress thread and an invalid mutex)."""
    try:
        return _measure(plan, launch, binary, out, lab)
    except Failure as failure:
        if launch.tutti:
            raise
        console.print(f"{failure}\n{launch.title()}: started once more", highlight=False, soft_wrap=True)
    return _measure(plan, launch, binary, out, lab)


def _measure(plan: Plan, launch: Launch, binary: Path, out: Path, lab: Any) -> list[dict[str, Any]]:
    out.unlink(missing_ok=True)
    environment = peers.environment(launch.mpi, launch.settings)
    # The protocols are what is compared: settings of the caller's own must not come in between.
    environment = {name: value for name, value in environment.items() if launch.tutti or not name.startswith("TUTTI_")}
    environment |= launch.variables
    words = command(plan, launch, binary, out)
    limit = plan.limit_s()
    status, said = (start.here(words, environment, limit) if lab is None else
                    start.in_lab(lab, words, environment, limit))
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if status != 0:
        raise Failure(f"{launch.title()}: {start.reason(status, limit)} after {len(lines)} of {plan.cells} cells\n"
                      f"{start.tail(said)}")
    return lines
