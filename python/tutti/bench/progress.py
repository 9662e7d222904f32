"""`tutti bench progress`: what progress behind the program's back costs (RNDV-2006, sections 3.3 and 5.1)."""

from __future__ import annotations

import json
import random
import statistics
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tutti.bench import options, overlap, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.host import mpis
from tutti.report.table import size_text, time_text

REPEATS = 20


def row_of(launch: Launch, lines: list[dict[str, list[float]]], idle_us: float, plan: Plan, size: int) -> dict[str, Any]:
    """Medians over all repetitions. `idle_us`: of the MPI alone, with which the computation is compared."""
    values = {name: [value for line in lines for value in line[name]] for name in lines[0]}
    middle = {name: statistics.median(found) for name, found in values.items()}
    return {
        "bench": "progress", "mpi": launch.mpi.name, "tutti": launch.tutti, "protocol": launch.way, "bytes": size,
        "nodes": plan.lab.nodes if plan.lab else 1, **middle, "idle_ratio": middle["idle_us"] / idle_us,
        "pending_switches_mean": statistics.mean(values["pending_switches"]),
        "idle_switches_mean": statistics.mean(values["idle_switches"]),
        "interrupt_us": middle["computing_us"] - middle["polled_us"],
        "rounds": plan.rounds, "seed": plan.seed, "mpi_version": launch.mpi.version, "settings": launch.settings_text(),
        **({"latency": plan.lab.latency, "rate": plan.lab.rate} if plan.lab else {})}


def show(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table("MPI", "protocol", "nothing pending (us)", "to the MPI alone", "a receive pending (us)", "wake-ups",
                  "send to who polls (us)", "to who computes (us)", "8 B one way (us)", box=None, pad_edge=False,
                  title_justify="left", title=f"computation and progress, messages of {size_text(rows[0]['bytes'])}")
    for row in rows:
        table.add_row(("tutti over " if row["tutti"] else "") + row["mpi"], row["protocol"], time_text(row["idle_us"]),
                      f"{row['idle_ratio']:.3f}", time_text(row["pending_us"]), f"{row['pending_switches_mean']:.1f}",
                      time_text(row["polled_us"]), time_text(row["computing_us"]), time_text(row["round_trip_us"]))
    console.print(table)


def command(
    mpi: Annotated[str, typer.Option(metavar="LIST", help="MPIs to compare: mpich, openmpi, impi, or NAME=FOLDER.")]
    = "mpich,openmpi",
    size: Annotated[str, typer.Option("--bytes", metavar="N", help="Size of the messages.")] = "1M",
    compute_ms: Annotated[float, typer.Option(min=0.1, max=1000, help="Length of a computation.")] = 20,
    number: Annotated[int, typer.Option("--rounds", min=1, help="How often each combination is started.")] = 3,
    seed: options.Seed = None,
    lab: options.LabNodes = None,
    latency: options.Latency = None,
    rate: options.Rate = None,
    json_path: options.Json = None,
    dry_run: options.DryRun = False,
) -> None:
    """Measure what progress costs: a computation alone, a computation beside a pending receive, and an interrupt."""
    rounds.check_output(json_path)
    in_lab = texts.LabRequest.parse(lab, latency, rate)
    wanted = texts.sizes(size)[0]
    plan = Plan("progress.c", ["--bytes", str(wanted), "--compute-ms", str(compute_ms), "--repeats", str(REPEATS)], 1,
                REPEATS * 5 * compute_ms * 1e-3, number,
                random.SystemRandom().randrange(10**6) if seed is None else seed, in_lab)
    launches = [launch for found in map(mpis.find, texts.words(mpi, "--mpi"))
                for launch in overlap.launches_of(found, 2, ["read", "read_interrupt"], in_lab)]
    found = rounds.run(plan, launches, Console(stderr=True), dry_run)
    if dry_run:
        return
    alone = {launch.mpi: statistics.median(us for line in lines for us in line["idle_us"])
             for launch, lines in found.items() if launch.way == "native"}
    rows = [row_of(launch, lines, alone[launch.mpi], plan, wanted) for launch, lines in found.items()]
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, Console(width=180))
