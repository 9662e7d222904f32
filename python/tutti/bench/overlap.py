"""`tutti bench overlap`: how much of a transfer passes while the program computes (RNDV-2006, section 5)."""

from __future__ import annotations

import json
import os
import random
import statistics
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tutti.bench import options, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.errors import UserError
from tutti.host import mpis
from tutti.host.mpis import Mpi
from tutti.report.table import size_text, time_text

SIDES = {"isend": "sender", "irecv": "receiver", "iallreduce": "all", "ibcast": "all", "iallgather": "all"}
PROTOCOLS = ("write", "read", "read_interrupt")
# How each MPI is told to have progress threads of its own; Open MPI has no such setting.
OWN_THREADS = {"mpich": {"MPIR_CVAR_ASYNC_PROGRESS": "1"}, "impi": {"I_MPI_ASYNC_PROGRESS": "1"}}
REPEATS = 10


def overlap_of(comm: float, compute: float, both: float) -> float:
    """The part of the shorter of the two that the other hides, from 0 to 1."""
    return min(1.0, max(0.0, (comm + compute - both) / min(comm, compute)))


def launches_of(mpi: Mpi, ranks: int, protocols: list[str], lab: texts.LabRequest | None) -> list[Launch]:
    settings = rounds.settings_for(mpi, ranks, lab)
    launches = [Launch(mpi, ranks, False, "native", settings)]
    if mpi.name in OWN_THREADS:
        launches.append(Launch(mpi, ranks, False, "progress_thread", settings, OWN_THREADS[mpi.name]))
    return launches + [Launch(mpi, ranks, True, protocol, settings,
                              {"TUTTI_P2P": "1", "TUTTI_RENDEZVOUS": protocol}) for protocol in protocols]


def _side(op: str, apart: bool) -> str:
    """Who computes."""
    return "last rank" if apart and SIDES[op] == "all" else SIDES[op]


def rows_of(found: dict[Launch, list[dict[str, Any]]], plan: Plan) -> list[dict[str, Any]]:
    """One row per cell, length of the computation and kind of launch."""
    rows = []
    for launch, lines in found.items():
        for key in dict.fromkeys((line["op"], line["bytes"], line["fraction"]) for line in lines):
            mine = [line for line in lines if (line["op"], line["bytes"], line["fraction"]) == key]
            comm, compute, both, wait = ([us for line in mine for us in line[name]]
                                         for name in ("comm_us", "compute_us", "us", "wait_us"))
            middle = [statistics.median(values) for values in (comm, compute, both)]
            rows.append({
                "bench": "overlap", "op": key[0], "bytes": key[1], "np": launch.ranks,
                "nodes": plan.lab.nodes if plan.lab else 1, "mpi": launch.mpi.name, "tutti": launch.tutti,
                "protocol": launch.way, "side": _side(key[0], "--apart" in plan.arguments), "overlap": overlap_of(*middle),
                "us": middle[2], "us_min": min(both), "us_max": max(both), "comm_us": middle[0],
                "compute_us": middle[1], "fraction": key[2], "work_share": min(1.0, middle[1] / middle[2]),
                "wait_us": statistics.median(wait),
                "apart": "--apart" in plan.arguments,
                "rounds": plan.rounds, "iterations": len(both), "seed": plan.seed, "mpi_version": launch.mpi.version,
                "settings": launch.settings_text(),
                **({"latency": plan.lab.latency, "rate": plan.lab.rate} if plan.lab else {})})
    return rows


def show(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table("op", "bytes", "MPI", "protocol", "transfer (us)", "computation (us)", "both (us)",
                  "in MPI_Wait (us)", "overlap", "W / T", box=None, pad_edge=False, title_justify="left",
                  title="the part of a transfer that passes while the program computes")
    for row in sorted(rows, key=lambda row: (row["op"], row["bytes"], row["fraction"], row["tutti"])):
        table.add_row(row["op"], size_text(row["bytes"]), ("tutti over " if row["tutti"] else "") + row["mpi"],
                      row["protocol"], time_text(row["comm_us"]), time_text(row["compute_us"]), time_text(row["us"]),
                      time_text(row["wait_us"]), f"{row['overlap']:.0%}", f"{row['work_share']:.0%}")
    console.print(table)


def _leave_last_processor() -> int:
    """Keeps this process, and what it starts, off the last processor that it may use. Returns that one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise UserError("--apart: needs two processors")
    os.sched_setaffinity(0, allowed[:-1])
    return allowed[-1]


def command(
    mpi: Annotated[str, typer.Option(metavar="LIST", help="MPIs to compare: mpich, openmpi, impi, or NAME=FOLDER.")]
    = "mpich,openmpi,impi",
    op: Annotated[str, typer.Option(metavar="LIST", help="isend (the paper's sender test), irecv (its receiver test), "
                                    "iallreduce, ibcast, iallgather.")] = "isend,irecv",
    sizes: Annotated[str, typer.Option(metavar="LIST|A:B", help="Bytes: a list, or a range in steps of four.")]
    = "64K,256K,1M,4M",
    protocols: Annotated[str, typer.Option("--protocol", metavar="LIST",
                                           help="tutti's protocols: write, read, read_interrupt.")] = ",".join(PROTOCOLS),
    fractions: Annotated[str, typer.Option(metavar="LIST", help="Length of the computation, in times of the transfer.")]
    = "1.25",
    np: Annotated[int, typer.Option("--np", min=2, help="Ranks. Messages pass between the first two.")] = 2,
    number: Annotated[int, typer.Option("--rounds", min=1, help="How often each combination is started.")] = 3,
    apart: Annotated[bool, typer.Option("--apart", help="Give the computing thread the last processor for itself. All that "
        "moves data shares the others, as a network card would move it. In a collective the last rank then computes, and the "
        "others just wait.")] = False,
    seed: options.Seed = None,
    lab: options.LabNodes = None,
    latency: options.Latency = None,
    rate: options.Rate = None,
    json_path: options.Json = None,
    dry_run: options.DryRun = False,
) -> None:
    """Measure how far transfers overlap computation: each MPI, with its own progress threads, and tutti's three protocols."""
    ops, wanted = texts.words(op, "--op"), texts.sizes(sizes)
    for name in ops:
        if name not in SIDES:
            raise UserError(f"--op {name}: expected one of {', '.join(SIDES)}")
    ways = texts.words(protocols, "--protocol")
    for name in ways:
        if name not in PROTOCOLS:
            raise UserError(f"--protocol {name}: expected one of {', '.join(PROTOCOLS)}")
    shares = texts.words(fractions, "--fractions")
    for word in shares:
        if not word.replace(".", "", 1).isdigit() or float(word) <= 0:
            raise UserError(f"--fractions {word}: expected positive numbers, such as 0.5,1,1.25")
    rounds.check_output(json_path)
    in_lab = texts.LabRequest.parse(lab, latency, rate)
    plan = Plan("overlap.c", ["--ops", ",".join(ops), "--sizes", ",".join(map(str, wanted)), "--fractions",
                              ",".join(shares), "--repeats", str(REPEATS)],
                len(ops) * len(wanted) * len(shares), 1.0, number,
                random.SystemRandom().randrange(10**6) if seed is None else seed, in_lab)
    if apart:
        plan.arguments.extend(["--apart", str(_leave_last_processor())])
    launches = [launch for found in map(mpis.find, texts.words(mpi, "--mpi"))
                for launch in launches_of(found, np, ways, in_lab)]
    found = rounds.run(plan, launches, Console(stderr=True), dry_run)
    if dry_run:
        return
    rows = rows_of(found, plan)
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, Console(width=160))
