"""`tutti bench coll`: collectives of each MPI, alone and with tutti, interleaved in one run."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from tutti import command as command_of_tutti
from tutti.bench import neighbours, own, peers, program, start, texts
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.host.mpis import Mpi
from tutti.lab import Lab
from tutti.report import plot, table

COLLECTIVES = ("barrier", "bcast", "reduce", "allreduce", "allgather", "gather", "scatter", "alltoall",
               "reduce_scatter_block", "reduce_scatter", "scan", "exscan", "gatherv", "scatterv", "alltoallv",
               "alltoallv_sparse", "alltoallw", "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
               "neighbor_alltoallv", "neighbor_alltoallw")
OPS = (*COLLECTIVES, *(f"i{name}" for name in COLLECTIVES), *(f"{name}_init" for name in COLLECTIVES))
SLOWEST_CELL_S = 10.0  # for one cell, whatever its budget: an oversubscribed MPI may need it
TIME_MS = 20.0         # to measure each cell in each round
# In a lab: with fewer calls in a batch its time would be that of ranks which wait for the last one of the batch before.
TIME_LATENCIES = 400
COLD_WARM_UP, COLD_CALLS = 100, 1000  # as other benchmarks measure,
COLD_LARGE, COLD_FEWER = 65536, 10    # beyond so many bytes a tenth of it
COLD_S = 120.0                        # for one cell

Cell = tuple[str, int, int]  # op, bytes, ranks


@dataclass(frozen=True)
class Request:
    """What is to be measured."""

    mpis: list[Mpi]
    ranks: list[int]
    ops: list[str]
    sizes: list[int]
    rounds: int
    time_ms: float
    sync: str
    seed: int
    json_path: Path | None = None
    plot_path: Path | None = None
    lab: texts.LabRequest | None = None
    against: str = "peers"
    cold: bool = False
    beside: int = 0
    also: list[tuple[Mpi, peers.Settings]] = field(default_factory=list)  # settings beside the best known ones

    @staticmethod
    def parse(*, mpi: str, np: str, op: str, sizes: str, rounds: int, time_ms: float | None, sync: str,
              seed: int | None, json_path: Path | None, plot_path: Path | None, lab: int | None = None,
              latency: str | None = None, rate: str | None = None, against: str = "peers", cold: bool = False,
              beside: int = 0, also: list[str] | None = None) -> Request:
        """From the texts of the command line. Raises UserError."""
        unknown = [name for name in texts.words(op, "--op") if name not in OPS]
        if unknown:
            raise UserError(f"--op {unknown[0]}: expected one of {', '.join(COLLECTIVES)}; iNAME, begun and awaited at "
                            "once; NAME_init, started and awaited")
        if against not in ("peers", "own"):
            raise UserError(f"--against {against}: expected peers or own")
        if against == "own" and plot_path is not None:
            raise UserError("--plot draws --against peers only")
        if sync not in ("none", "barrier"):
            raise UserError(f"--sync {sync}: expected none or barrier")
        for path in (json_path, plot_path):
            if path is not None and not path.absolute().parent.is_dir():
                raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")
        if plot_path is not None:
            plot.check(plot_path)
        in_lab = texts.LabRequest.parse(lab, latency, rate)
        found = [mpis.find(name) for name in texts.words(mpi, "--mpi")]
        more = []
        for name, settings in (peers.parse(text, "--also") for text in also or []):
            if not (named := [mpi for mpi in found if mpi.name == name]):
                raise UserError(f"--also {name}: expected one of the MPIs to compare, {', '.join(m.name for m in found)}")
            more.append((named[0], settings))
        if time_ms is None:
            time_ms = TIME_MS if in_lab is None else max(5 * TIME_MS, in_lab.latency_ns * 1e-6 * TIME_LATENCIES)
        return Request(mpis=found, ranks=texts.ranks(np),
                       ops=texts.words(op, "--op"), sizes=texts.sizes(sizes), rounds=rounds, time_ms=time_ms, sync=sync,
                       seed=random.SystemRandom().randrange(10**6) if seed is None else seed,
                       json_path=json_path, plot_path=plot_path, lab=in_lab, against=against, cold=cold, beside=beside, also=more)


@dataclass(frozen=True, eq=False)  # each one is its own key
class Launch:
    """One way of running the benchmark program, for cells of one number of ranks."""

    mpi: Mpi
    ranks: int
    tutti: bool
    settings: peers.Settings

    def title(self) -> str:
        return f"{'tutti over ' if self.tutti else ''}{self.mpi.product}, {self.ranks} ranks"


@dataclass
class Measured:
    """What the rounds brought for one cell of one kind of launch: one median of each round."""

    us: list[float] = field(default_factory=list)
    iterations: int = 0


Results = dict[tuple[Launch, str, int], Measured]


# ---- running -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What one start of the program measures."""

    launch: Launch
    ops: list[str]
    sizes: list[int]

    def cells(self) -> int:
        return len(self.ops) * len(self.sizes)


def bench(request: Request, dry_run: bool = False) -> None:
    """Measures, writes the files that were asked for, prints the table. Raises Failure when a launch
    fails or a result was wrong."""
    console = Console(stderr=True)
    processors = machine.cpus().usable
    programs = {mpi: program.compile_for(mpi, program.source("coll.c")) for mpi in request.mpis}
    launches = [Launch(mpi, ranks, tutti, settings) for ranks in request.ranks for mpi in request.mpis
                for settings in _settings(request, mpi, ranks, processors) for tutti in (False, True)]
    launches += [Launch(mpi, ranks, tutti, settings) for mpi, settings in request.also for ranks in request.ranks
                 for tutti in ((False, True) if request.against == "own" else (False,))]
    parts = [part for launch in launches for part in _parts(request, launch, request.ops, request.sizes)]
    _announce(console, request, launches, processors)
    if dry_run:
        for part in parts:
            print(shlex.join(_command(request, part, programs[part.launch.mpi], Path("OUT"))))
        return
    order = random.Random(request.seed)
    with (request.lab.open() if request.lab else contextlib.nullcontext() as lab, neighbours.busy(request.beside)):

        def measure(these: list[Part]) -> list[dict[str, Any]]:
            return _rows(request, launches, _rounds(request, these, programs, order, lab, console))

        rows = measure(parts)
        again = measure(_below(request, launches, rows)) if request.against == "own" else []
        if lab is not None:
            late = lab.switch_counters()["late"]
            console.print(f"the lab delivered {late['mean_us']:.0f} us late on average, {late['max_us']:.0f} at most",
                          highlight=False)
    if request.json_path is not None:
        request.json_path.write_text(json.dumps([*rows, *({**row, "again": True} for row in again)], indent=1) + "\n")
    if request.plot_path is not None:
        plot.draw(rows, request.plot_path)
    # In a file or a pipe the table takes the width that it needs.
    shown = Console() if sys.stdout.isatty() else Console(width=160)
    if request.against == "own":
        own.show(rows, again, shown)
    else:
        table.show(rows, shown)


def _settings(request: Request, mpi: Mpi, ranks: int, processors: int) -> list[peers.Settings]:
    """What to start an MPI with: at its best; against itself, as it comes, too."""
    best = peers.lab_settings(mpi) if request.lab else peers.best_settings(mpi, ranks, processors)
    if request.against == "peers" or best == peers.Settings():
        return [best]
    return [peers.Settings(why="as it comes"), best]


def _parts(request: Request, launch: Launch, ops: list[str], sizes: list[int]) -> list[Part]:
    """All these cells in one start; cold ones each in a start of its own."""
    if not request.cold:
        return [Part(launch, ops, sizes)]
    return [Part(launch, [op], [size]) for op in ops for size in (sizes[:1] if "barrier" in op else sizes)]


def _below(request: Request, launches: list[Launch], rows: list[dict[str, Any]]) -> list[Part]:
    """The cells to be measured again, alone and with tutti."""
    cells: dict[tuple[own.Group, str], list[int]] = {}
    for group, op, size in own.below(own.compare(rows)):
        cells.setdefault((group, op), []).append(size or request.sizes[0])
    return [part for launch in launches for (group, op), sizes in cells.items()
            if group == (launch.ranks, launch.mpi.name, launch.settings.text())
            for part in _parts(request, launch, [op], sizes)]


def _rounds(request: Request, parts: list[Part], programs: dict[Mpi, Path], order: random.Random, lab: Lab | None,
            console: Console) -> Results:
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder, start.progress(console) as progress:
        task = progress.add_task("", total=request.rounds * len(parts))
        for _ in range(request.rounds):
            for part in order.sample(parts, len(parts)):
                progress.update(task, description=part.launch.title())
                _measure(request, part, programs[part.launch.mpi], Path(folder), results, lab)
                progress.advance(task)
    return results


def _announce(console: Console, request: Request, launches: list[Launch], processors: int) -> None:
    console.print(f"seed {request.seed}, {request.rounds} rounds of {len(launches)} launches, "
                  f"{processors} processors; peers at their best settings:", highlight=False)
    if request.lab:
        console.print(f"  in a lab of {request.lab.nodes} nodes, latency {request.lab.latency}, rate {request.lab.rate}",
                      highlight=False)
    for launch in launches:
        if not launch.tutti:
            console.print(f"  {launch.mpi.product} {launch.mpi.version}, {launch.ranks} ranks: "
                          f"{launch.settings.text()} ({launch.settings.why})", highlight=False, soft_wrap=True)


def _command(request: Request, part: Part, binary: Path, out: Path) -> list[str]:
    arguments = [str(binary), "--ops", ",".join(part.ops), "--sizes", ",".join(map(str, part.sizes)),
                 "--time-ms", str(request.time_ms), "--sync", request.sync, "--out", str(out)]
    if request.cold:
        fewer = COLD_FEWER if part.sizes[0] > COLD_LARGE else 1
        arguments += ["--warm-up", str(COLD_WARM_UP // fewer), "--calls", str(COLD_CALLS // fewer)]
    command = peers.command_line(part.launch.mpi, part.launch.ranks, part.launch.settings, arguments)
    return [*command_of_tutti(), "run", *command] if part.launch.tutti else command


def _measure(request: Request, part: Part, binary: Path, folder: Path, results: Results, lab: Lab | None) -> None:
    launch = part.launch
    out = folder / "cells.json"
    out.unlink(missing_ok=True)
    environment = peers.environment(launch.mpi, launch.settings)
    if not launch.tutti:
        environment = {name: value for name, value in environment.items() if not name.startswith("TUTTI_")}
    cell_s = COLD_S if request.cold else SLOWEST_CELL_S + request.time_ms * 1e-3 * 4
    limit = start.START_S + part.cells() * cell_s * (1 + request.beside)
    command = _command(request, part, binary, out)
    status, said = (start.here(command, environment, limit) if lab is None else
                    start.in_lab(lab, command, environment, limit))
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if status != 0:
        raise Failure(f"{launch.title()}: {start.reason(status, limit)} after {len(lines)} of {part.cells()} cells\n"
                      f"{start.tail(said)}")
    for line in lines:
        measured = results.setdefault((launch, line["op"], line["bytes"]), Measured())
        measured.us.append(statistics.median(line["us"]))
        measured.iterations = max(measured.iterations, line["iterations"])


# ---- results -------------------------------------------------------------------------------------


def _rows(request: Request, launches: list[Launch], results: Results) -> list[dict[str, Any]]:
    """One row per cell and kind of launch, with the keys that design.md promises and a few more."""
    rows = []
    for launch in launches:
        for (owner, op, size), measured in results.items():
            if owner is not launch:
                continue
            rows.append({
                "bench": "coll", "op": op, "bytes": size, "np": launch.ranks,
                "nodes": request.lab.nodes if request.lab else 1,
                "mpi": launch.mpi.name, "tutti": launch.tutti, "us": statistics.median(measured.us),
                "us_min": min(measured.us), "us_max": max(measured.us), "rounds": len(measured.us),
                "iterations": measured.iterations, "sync": request.sync, "cold": request.cold, "beside": request.beside, "seed": request.seed,
                "mpi_version": launch.mpi.version, "settings": launch.settings.text(),
                **({"latency": request.lab.latency, "rate": request.lab.rate} if request.lab else {})})
    return rows
