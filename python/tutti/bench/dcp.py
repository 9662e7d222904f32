"""`tutti bench dcp`: latency and overhead of an allreduce on dedicated processors, beside each MPI's own MPI_Iallreduce
and tutti without them, interleaved in one run.

The microbenchmark is that of CDCP-2008 (figure 5): start, compute, wait. Without computation the time to start and to
wait is the latency, with enough of it the overhead."""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tutti import command as command_of_tutti
from tutti.bench import options, peers, program, start, texts
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.host.mpis import Mpi
from tutti.launch.dcp import options_of

CELL_S = 20.0  # for one size, whatever its budget
AHEAD = 16     # allreduces in a rank's turn (dcp.c)


@dataclass(frozen=True, eq=False)
class Launch:
    """One way of running the benchmark program."""

    mpi: Mpi
    ranks: int
    dcp: str | None  # None: the MPI alone; "": tutti without dedicated processors

    def title(self) -> str:
        if self.dcp is None:
            return f"{self.mpi.product}, {self.ranks} ranks"
        return f"tutti over {self.mpi.product}, {self.ranks} ranks" + (f", --dcp {self.dcp}" if self.dcp else "")


def processors_of(dcp: str, ranks: int) -> int:
    """How many dedicated processors a ratio gives on one node."""
    count, _, per = dcp.partition(":")
    return -(-ranks * int(count) // int(per)) if per else int(count)


@dataclass(frozen=True)
class Manner:
    """Who has which processor while the times are taken."""

    own_cores: bool = False
    give_way: bool = False
    in_turn: bool = False

    def of(self, launch: Launch) -> Manner:
        """In turns only dedicated processors work; whoever moves data inside its own calls computes beside the others,
        and gives way where there are more of them than processors."""
        if not self.in_turn or launch.dcp:
            return self
        return Manner(give_way=launch.ranks > machine.cpus().usable)


def _placed(launch: Launch, own_cores: bool, command: list[str], environment: dict[str, str]) -> list[str]:
    """With cores of their own for the dedicated processors: the program's processes get the others."""
    if not own_cores:
        return command
    cpus = sorted(os.sched_getaffinity(0))
    count = processors_of(launch.dcp, launch.ranks) if launch.dcp else 1
    if count >= len(cpus):
        raise UserError(f"--own-cores, --in-turn: {count} dedicated processors would leave no core of {len(cpus)}")
    environment["TUTTI_DCP_CPUS"] = ",".join(map(str, cpus[-count:]))
    environment["I_MPI_PIN"] = "0"
    if launch.mpi.name == "openmpi":
        command[1:1] = ["--bind-to", "none"]
    return ["taskset", "-c", ",".join(map(str, cpus[:-count])), *command]


def run_once(launch: Launch, binary: Path, sizes: list[int], computes: list[float], time_ms: float,
             manner: Manner) -> list[dict[str, Any]]:
    """One launch; its lines. Raises Failure."""
    manner = manner.of(launch)
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder:
        out = Path(folder) / "cells.json"
        settings = peers.best_settings(launch.mpi, launch.ranks, machine.cpus().usable)
        environment = {name: value for name, value in peers.environment(launch.mpi, settings).items()
                       if not name.startswith("TUTTI_") or launch.dcp is not None}
        arguments = [str(binary), "--sizes", ",".join(map(str, sizes)), "--compute",
                     ",".join(f"{us:g}" for us in computes), "--time-ms", str(time_ms), "--give-way",
                     str(int(manner.give_way)), "--in-turn", str(int(manner.in_turn)), "--out", str(out)]
        command = peers.command_line(launch.mpi, launch.ranks, settings, arguments)
        command = _placed(launch, manner.own_cores, command, environment)
        if launch.dcp is not None and (manner.give_way or manner.in_turn):
            environment["TUTTI_SPIN_US"] = "1000000"  # as on a core of its own, no dedicated processor sleeps
        if launch.dcp is None:
            environment.pop("TUTTI_DCP_CPUS", None)
        else:
            command = [*command_of_tutti(), "run", *(["--dcp", launch.dcp] if launch.dcp else []), *command]
        limit = start.START_S + len(sizes) * (len(computes) + 1) * (CELL_S + time_ms * 4e-3)
        if manner.in_turn:  # a round at least, in which each rank has its turn
            limit += len(sizes) * sum(computes) * 1e-6 * 2 * AHEAD * launch.ranks
        status, said = start.here(command, environment, limit)
        if status != 0:
            raise Failure(f"{launch.title()}: {start.reason(status, limit)}\n{start.tail(said)}")
        return [json.loads(line) for line in out.read_text().splitlines()]


def measure(launches: list[Launch], sizes: list[int], computes: list[float], rounds: int, time_ms: float,
            manner: Manner, seed: int, console: Console) -> list[dict[str, Any]]:
    """A row for each launch, size and computation; medians over the rounds."""
    binaries = {mpi: program.compile_for(mpi, program.source("dcp.c")) for mpi in {each.mpi for each in launches}}
    order = random.Random(seed)
    found: dict[tuple[Launch, int, float], list[dict[str, Any]]] = {}
    with start.progress(console) as progress:
        task = progress.add_task("", total=rounds * len(launches))
        for _ in range(rounds):
            for launch in order.sample(launches, len(launches)):
                progress.update(task, description=launch.title())
                for line in run_once(launch, binaries[launch.mpi], sizes, computes, time_ms, manner):
                    found.setdefault((launch, line["bytes"], line["compute_us"]), []).append(line)
                progress.advance(task)
    rows = []
    for (launch, size, compute), lines in found.items():
        both = [line["both_us"] for line in lines]
        latency = [line["both_us"] for line in found[launch, size, min(computes)]]
        rows.append({
            "bench": "dcp", "op": "allreduce", "bytes": size, "np": launch.ranks, "nodes": 1, "mpi": launch.mpi.name,
            "tutti": launch.dcp is not None, "ratio": launch.dcp or "",
            "dcps": processors_of(launch.dcp, launch.ranks) if launch.dcp else 0,
            "us": statistics.median(latency), "us_min": min(latency), "us_max": max(latency),
            "blocking_us": statistics.median(line["blocking_us"] for line in lines), "compute_us": compute,
            "overhead_us": statistics.median(both), "overhead_us_min": min(both), "overhead_us_max": max(both),
            "start_us": statistics.median(line["start_us"] for line in lines),
            "wait_us": statistics.median(line["wait_us"] for line in lines),
            "rounds": len(lines), "iterations": max(line["iterations"] for line in lines), "seed": seed,
            **asdict(manner.of(launch)), "mpi_version": launch.mpi.version})
    return rows


def _show(rows: list[dict[str, Any]], computes: list[float]) -> None:
    title = "allreduce: medians, the largest over the ranks; overhead: start and wait around a computation"
    table = Table("bytes", "ranks", "who", "--dcp", "blocking (us)", "latency (us)",
                  *[f"overhead at {us:g} us" for us in computes if us > 0], title=title,
                  title_justify="left")
    seen: dict[tuple, dict[float, dict[str, Any]]] = {}
    for row in rows:
        key = (row["bytes"], row["np"], row["mpi"], row["tutti"], row["ratio"])
        seen.setdefault(key, {})[row["compute_us"]] = row
    for (size, ranks, mpi, tutti, ratio), cells in sorted(seen.items(), key=str):
        first = next(iter(cells.values()))
        table.add_row(str(size), str(ranks), f"tutti over {mpi}" if tutti else mpi, ratio,
                      f"{first['blocking_us']:.2f}", f"{first['us']:.2f}",
                      *[f"{cells[us]['overhead_us']:.3f}" for us in computes if us > 0])
    Console().print(table)


def computations(text: str) -> list[float]:
    """Times from the command line, from 0 on. Raises UserError."""
    try:
        values = sorted({float(word) for word in text.split(",")} | {0.0})
    except ValueError:
        raise UserError(f"--compute {text}: expected microseconds, such as 50,200") from None
    if values[0] < 0 or values[-1] > 1e6:
        raise UserError(f"--compute {text}: expected microseconds from 0 to 1000000")
    return values


def command(
    mpi: Annotated[str, typer.Option(metavar="LIST", help="MPIs: mpich, openmpi, impi, or NAME=FOLDER.")]
    = "mpich,openmpi,impi",
    np: Annotated[str, typer.Option("--np", metavar="LIST", help="Numbers of the program's ranks.")] = "2",
    ratio: Annotated[str, typer.Option(
        metavar="LIST", help="Dedicated processors, as for tutti run --dcp: 1 (a node), 1:2, 1:4.")] = "1",
    sizes: Annotated[str, typer.Option(metavar="LIST|A:B", help="Bytes, in multiples of 8.")] = "8,1K",
    compute: Annotated[str, typer.Option(
        metavar="LIST", help="Microseconds of computation between start and wait.")] = "200",
    rounds: Annotated[int, typer.Option(min=1, help="How often each combination is started.")] = 5,
    time_ms: Annotated[float, typer.Option(min=1, help="Time to measure each cell in each round.")] = 50.0,
    own_cores: Annotated[bool, typer.Option(
        "--own-cores", help="Give the last cores to the dedicated processors, and the others to all programs, the peers' too "
        "(by taskset).")] = False,
    give_way: Annotated[bool, typer.Option(
        "--give-way", help="Let computations give their core to whoever wants it, and keep dedicated processors awake. This "
        "measures the overhead with cores of their own where there are none.")] = False,
    in_turn: Annotated[bool, typer.Option(
        "--in-turn", help="Measure the overhead on one rank after the other, while the rest sleep. So the rank and the "
        "dedicated processors have cores of their own, even with fewer cores than ranks. Implies --own-cores for them. "
        "Without dedicated processors the measurement is as usual.")] = False,
    seed: options.Seed = None,
    json_path: options.Json = None,
) -> None:
    """Measure latency and overhead of dedicated processors, beside MPI_Iallreduce of each MPI."""
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise UserError(f"cannot write {json_path}: there is no folder {json_path.absolute().parent}")
    ratios = texts.words(ratio, "--ratio")
    for text in ratios:
        options_of(text, False)
    counts = texts.ranks(np)
    if min(counts) < 2:
        raise UserError(f"--np {np}: expected numbers of ranks from 2 on")
    numbers = texts.sizes(sizes)
    if any(number % 8 for number in numbers):
        raise UserError(f"--sizes {sizes}: expected bytes in multiples of 8: the elements are doubles")
    computes = computations(compute)
    launches = [Launch(one, count, dcp) for one in (mpis.find(name) for name in texts.words(mpi, "--mpi"))
                for count in counts for dcp in (None, "", *ratios)]
    manner = Manner(own_cores or in_turn, give_way, in_turn)
    console = Console(stderr=True)
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    console.print(f"seed {seed}, {rounds} rounds of {len(launches)} launches, {machine.cpus().usable} processors"
                  + (", dedicated ones on cores of their own" if manner.own_cores else ", dedicated ones on shared cores "
                     "where there are not enough"), highlight=False)
    rows = measure(launches, numbers, computes, rounds, time_ms, manner, seed, console)
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=1) + "\n")
    _show(rows, computes)
