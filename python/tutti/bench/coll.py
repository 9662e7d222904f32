"""`tutti bench coll`: collectives of each MPI, alone and with tutti, interleaved in one run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tutti import command as command_of_tutti
from tutti import native
from tutti.bench import peers, program
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.host.mpis import Mpi
from tutti.lab import Lab, values
from tutti.report import plot, table

OPS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "gather", "scatter", "alltoall",
       "reduce_scatter_block")
SIZE_STEP = 4          # between the sizes of a range
START_S = 60.0         # for a launch to start and stop
SLOWEST_CELL_S = 10.0  # for one cell, whatever its budget: an oversubscribed MPI may need it
MAX_RANKS = 1024
TIME_MS = 20.0         # to measure each cell in each round
# In a lab: with fewer calls in a batch its time would be that of ranks which wait for the last one of the batch before.
TIME_LATENCIES = 400

Cell = tuple[str, int, int]  # op, bytes, ranks


@dataclass(frozen=True)
class LabRequest:
    """The cluster in a box to measure in."""

    nodes: int
    latency: str
    rate: str
    latency_ns: int

    @staticmethod
    def parse(nodes: int | None, latency: str | None, rate: str | None) -> LabRequest | None:
        """Raises UserError."""
        if nodes is None:
            if latency is not None or rate is not None:
                raise UserError("--latency and --rate are those of a lab: say --lab NODES too")
            return None
        values.bits_per_second(rate or "0", "--rate")
        return LabRequest(nodes, latency or "0", rate or "0", values.nanoseconds(latency or "0", "--latency"))

    def open(self) -> Lab:
        return Lab(self.nodes, latency=self.latency, rate=self.rate)


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
    lab: LabRequest | None = None

    @staticmethod
    def parse(*, mpi: str, np: str, op: str, sizes: str, rounds: int, time_ms: float | None, sync: str,
              seed: int | None, json_path: Path | None, plot_path: Path | None, lab: int | None = None,
              latency: str | None = None, rate: str | None = None) -> Request:
        """From the texts of the command line. Raises UserError."""
        unknown = [name for name in _words(op, "--op") if name not in OPS]
        if unknown:
            raise UserError(f"--op {unknown[0]}: expected one of {', '.join(OPS)}")
        if sync not in ("none", "barrier"):
            raise UserError(f"--sync {sync}: expected none or barrier")
        for path in (json_path, plot_path):
            if path is not None and not path.absolute().parent.is_dir():
                raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")
        if plot_path is not None:
            plot.check(plot_path)
        in_lab = LabRequest.parse(lab, latency, rate)
        if time_ms is None:
            time_ms = TIME_MS if in_lab is None else max(5 * TIME_MS, in_lab.latency_ns * 1e-6 * TIME_LATENCIES)
        return Request(mpis=[mpis.find(name) for name in _words(mpi, "--mpi")], ranks=_ranks(np),
                       ops=_words(op, "--op"), sizes=_sizes(sizes), rounds=rounds, time_ms=time_ms, sync=sync,
                       seed=random.SystemRandom().randrange(10**6) if seed is None else seed,
                       json_path=json_path, plot_path=plot_path, lab=in_lab)


@dataclass(frozen=True, eq=False)  # each one is its own key
class Launch:
    """One way of running the benchmark program; all cells of a number of ranks are measured in it."""

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


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UserError(f"{option}: expected a list separated by commas")
    return list(dict.fromkeys(words))


def _ranks(text: str) -> list[int]:
    numbers = []
    for word in _words(text, "--np"):
        if not word.isdigit() or not 1 <= int(word) <= MAX_RANKS:
            raise UserError(f"--np {word}: expected numbers of ranks from 1 to {MAX_RANKS}, such as 2,4,8")
        numbers.append(int(word))
    return numbers


def _bytes(text: str) -> int:
    count = native.core().bytes_of(text)
    if count <= 0 or count % 4:
        raise UserError(f"--sizes {text}: expected bytes in multiples of 4, such as 4, 64, 16K or 4M")
    return count


def _sizes(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    if not colon:
        return sorted({_bytes(word) for word in _words(text, "--sizes")})
    low, high = _bytes(first), _bytes(last)
    if low > high:
        raise UserError(f"--sizes {text}: the range is empty")
    sizes = []
    while low < high:
        sizes.append(low)
        low *= SIZE_STEP
    return [*sizes, high]


# ---- running -------------------------------------------------------------------------------------


def bench(request: Request, dry_run: bool = False) -> None:
    """Measures, writes the files that were asked for, prints the table. Raises Failure when a launch
    fails or a result was wrong."""
    console = Console(stderr=True)
    processors = machine.cpus().usable
    programs = {mpi: program.compile_for(mpi, program.source("coll.c")) for mpi in request.mpis}
    launches = [Launch(mpi, ranks, tutti, peers.lab_settings(mpi) if request.lab else
                       peers.best_settings(mpi, ranks, processors))
                for ranks in request.ranks for mpi in request.mpis for tutti in (False, True)]
    _announce(console, request, launches, processors)
    if dry_run:
        for launch in launches:
            print(shlex.join(_command(request, launch, programs[launch.mpi], Path("OUT"))))
        return
    results: Results = {}
    order = random.Random(request.seed)
    with (tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder, _progress(console) as progress,
          request.lab.open() if request.lab else contextlib.nullcontext() as lab):
        task = progress.add_task("", total=request.rounds * len(launches))
        for _ in range(request.rounds):
            for launch in order.sample(launches, len(launches)):
                progress.update(task, description=launch.title())
                _measure(request, launch, programs[launch.mpi], Path(folder), results, lab)
                progress.advance(task)
        if lab is not None:
            late = lab.switch_counters()["late"]
            console.print(f"the lab delivered {late['mean_us']:.0f} us late on average, {late['max_us']:.0f} at most",
                          highlight=False)
    rows = _rows(request, launches, results)
    if request.json_path is not None:
        request.json_path.write_text(json.dumps(rows, indent=1) + "\n")
    if request.plot_path is not None:
        plot.draw(rows, request.plot_path)
    # In a file or a pipe the table takes the width that it needs.
    table.show(rows, Console() if sys.stdout.isatty() else Console(width=160))


def _progress(console: Console) -> Progress:
    return Progress(TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    TimeRemainingColumn(), console=console, transient=True)


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


def _command(request: Request, launch: Launch, binary: Path, out: Path) -> list[str]:
    arguments = [str(binary), "--ops", ",".join(request.ops), "--sizes", ",".join(map(str, request.sizes)),
                 "--time-ms", str(request.time_ms), "--sync", request.sync, "--out", str(out)]
    command = peers.command_line(launch.mpi, launch.ranks, launch.settings, arguments)
    return [*command_of_tutti(), "run", *command] if launch.tutti else command


def _measure(request: Request, launch: Launch, binary: Path, folder: Path, results: Results,
             lab: Lab | None) -> None:
    out = folder / "cells.json"
    out.unlink(missing_ok=True)
    environment = peers.environment(launch.mpi, launch.settings)
    if not launch.tutti:
        environment = {name: value for name, value in environment.items() if not name.startswith("TUTTI_")}
    cells = len(request.ops) * len(request.sizes)
    limit = START_S + cells * (SLOWEST_CELL_S + request.time_ms * 1e-3 * 4)
    command = _command(request, launch, binary, out)
    status, said = _run(command, environment, limit) if lab is None else _run_in(lab, command, environment, limit)
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if status != 0:
        raise Failure(f"{launch.title()}: {_reason(status, limit)} after {len(lines)} of {cells} cells\n"
                      f"{_tail(said)}")
    for line in lines:
        measured = results.setdefault((launch, line["op"], line["bytes"]), Measured())
        measured.us.append(statistics.median(line["us"]))
        measured.iterations = max(measured.iterations, line["iterations"])


def _reason(status: int, limit: float) -> str:
    return f"not finished after {limit:.0f} s" if status == -signal.SIGKILL else f"exit status {status}"


def _tail(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines()[-15:])


def _run(command: list[str], environment: dict[str, str], limit_s: float) -> tuple[int, str]:
    """Exit status (-SIGKILL after the time limit) and what was said."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit_s)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        _end(process)
        said, _ = process.communicate()
        return -signal.SIGKILL, said
    except BaseException:
        _end(process)
        raise


def _run_in(lab: Lab, command: list[str], environment: dict[str, str], limit_s: float) -> tuple[int, str]:
    """The same in a lab."""
    try:
        answer = lab.run(command, env=environment, timeout=limit_s)
        return answer.returncode, answer.stdout + answer.stderr
    except subprocess.TimeoutExpired as expired:
        return -signal.SIGKILL, f"{expired.output}{expired.stderr}"


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a launch: the launcher first, so that it takes its ranks along."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        time.sleep(1 if number == signal.SIGTERM else 0)


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
                "iterations": measured.iterations, "sync": request.sync, "seed": request.seed,
                "mpi_version": launch.mpi.version, "settings": launch.settings.text(),
                **({"latency": request.lab.latency, "rate": request.lab.rate} if request.lab else {})})
    return rows
