"""`tutti bench p2p`: latency, bandwidth, message rate and both directions at once of two ranks, each MPI alone and with tutti."""

from __future__ import annotations

import json
import random
import statistics
import sys
from typing import Annotated, Any, Optional

import typer
from rich.console import Console

from tutti.bench import coll, options, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.errors import UserError
from tutti.host import mpis
from tutti.report import table

OPS = ("latency", "late", "bandwidth", "rate", "exchange", "both")
RANKS = 2


def rows_of(found: dict[Launch, list[dict[str, Any]]], plan: Plan) -> list[dict[str, Any]]:
    """One row per cell and kind of launch: the time of one message."""
    rows = []
    for launch, lines in found.items():
        for op, size in dict.fromkeys((line["op"], line["bytes"]) for line in lines):
            mine = [line for line in lines if (line["op"], line["bytes"]) == (op, size)]
            us = [statistics.median(line["us"]) for line in mine]
            median = statistics.median(us)
            rows.append({
                "bench": "p2p", "op": op, "bytes": size, "np": launch.ranks, "nodes": plan.lab.nodes if plan.lab else 1,
                "mpi": launch.mpi.name, "tutti": launch.tutti, "us": median, "us_min": min(us), "us_max": max(us),
                "mb_per_s": size / median, "messages_per_s": 1e6 / median, "rounds": len(us),
                "iterations": max(line["iterations"] for line in mine), "seed": plan.seed,
                "mpi_version": launch.mpi.version, "settings": launch.settings_text(),
                **({"latency": plan.lab.latency, "rate": plan.lab.rate} if plan.lab else {})})
    return rows


def command(
    mpi: Annotated[str, typer.Option(metavar="LIST", help="MPIs to compare: mpich, openmpi, impi, or NAME=FOLDER.")]
    = "mpich,openmpi,impi",
    op: Annotated[str, typer.Option(metavar="LIST", help="latency, late, bandwidth, rate, exchange, both.")]
    = ",".join(OPS),
    sizes: Annotated[str, typer.Option(metavar="LIST|A:B", help="Bytes: a list (8,1K), or a range in steps of four.")]
    = "8,512,4K,16K,64K,256K,1M",
    np: Annotated[int, typer.Option("--np", help="Ranks. Always 2: the messages pass between them.")] = RANKS,
    number: Annotated[int, typer.Option("--rounds", min=1, help="How often each combination is started.")] = 5,
    time_ms: Annotated[Optional[float], typer.Option(min=0.1, help="Time for each cell in each round.")] = None,
    seed: options.Seed = None,
    lab: options.LabNodes = None,
    latency: options.Latency = None,
    rate: options.Rate = None,
    json_path: options.Json = None,
    dry_run: options.DryRun = False,
) -> None:
    """Measure messages between two ranks: each MPI alone and with tutti (TUTTI_P2P=1), interleaved. Gives the time for one
    message: half of a round trip (latency), the same where the other side has waited for 20 us (late), of 16 or 128 in a row
    (bandwidth, rate), of an MPI_Sendrecv (exchange), of 16 each way at once (both)."""
    if np != RANKS:
        raise UserError(f"--np {np}: messages are measured between {RANKS} ranks")
    ops = texts.words(op, "--op")
    for name in ops:
        if name not in OPS:
            raise UserError(f"--op {name}: expected one of {', '.join(OPS)}")
    rounds.check_output(json_path)
    in_lab = texts.LabRequest.parse(lab, latency, rate)
    if time_ms is None:
        time_ms = coll.TIME_MS if in_lab is None else max(5 * coll.TIME_MS, in_lab.latency_ns * 1e-6 * 100)
    wanted = texts.sizes(sizes)
    plan = Plan("p2p.c", ["--ops", ",".join(ops), "--sizes", ",".join(map(str, wanted)), "--time-ms", str(time_ms)],
                len(ops) * len(wanted), time_ms * 1e-3, number,
                random.SystemRandom().randrange(10**6) if seed is None else seed, in_lab)
    launches = [Launch(found, RANKS, tutti, "TUTTI_P2P=1" if tutti else "native",
                       rounds.settings_for(found, RANKS, in_lab), {"TUTTI_P2P": "1"} if tutti else {})
                for found in map(mpis.find, texts.words(mpi, "--mpi")) for tutti in (False, True)]
    found = rounds.run(plan, launches, Console(stderr=True), dry_run)
    if dry_run:
        return
    rows = rows_of(found, plan)
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=1) + "\n")
    table.show(rows, Console() if sys.stdout.isatty() else Console(width=160))
