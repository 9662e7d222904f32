"""`tutti lab`: a launcher's command line in a cluster in a box."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from tutti.errors import UserError
from tutti.lab import values
from tutti.lab.lab import MOST_NODES, Lab, stand_in_for


def command(
    words: Annotated[list[str], typer.Argument(
        metavar="LAUNCHER ...", help="The command line to run: mpiexec -n 8 ./app, or tutti run mpiexec -n 8 ./app")],
    nodes: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="Number of nodes.")] = 2,
    latency: Annotated[str, typer.Option(metavar="TIME", help="One-way latency between any two nodes: 500us, 2ms.")] = "0",
    rate: Annotated[str, typer.Option(
        metavar="BITS", help="Rate of each node's link in each direction: 1Gbit, 100Mbit. 0: no limit.")] = "0",
    loss: Annotated[float, typer.Option(help="Probability that a frame is lost.")] = 0.0,
    duplicate: Annotated[float, typer.Option(help="Probability that a frame arrives twice.")] = 0.0,
    reorder: Annotated[float, typer.Option(help="Probability that a frame is overtaken by others.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed that decides which frames these are.")] = 1,
    mtu: Annotated[int, typer.Option(help="Largest packet in bytes.")] = 9000,
    json_path: Annotated[Optional[Path], typer.Option(
        "--json", metavar="FILE", help="Write what the switch counted to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print at the end what went over the network.")] = False,
) -> None:
    """Run a command line in a cluster in a box: each node is a host of its own on this machine. Needs root."""
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise UserError(f"cannot write {json_path}: there is no folder {json_path.absolute().parent}")
    with Lab(nodes, latency=latency, rate=rate, loss=loss, duplicate=duplicate, reorder=reorder, seed=seed,
             mtu=mtu) as lab:
        status = stand_in_for(lab.start(lab.command_line(words)))
        counters = lab.switch_counters()
        frames, count = lab.traffic()
    if json_path is not None:
        json_path.write_text(json.dumps(counters, indent=1) + "\n")
    if not quiet:
        print(f"tutti: {nodes} nodes, {values.time_text(lab.latency_ns)}, {values.rate_text(lab.bits_per_second)}: "
              f"{count:,} bytes in {frames:,} frames from node to node{_harm(counters)}; delivered "
              f"{counters['late']['mean_us']:.0f} us late on average, {counters['late']['max_us']:.0f} at most",
              file=sys.stderr)
    raise typer.Exit(status)


def _harm(counters: dict) -> str:
    """What was lost and otherwise done to frames, where anything was."""
    totals = {name: sum(link[name] for link in counters["links"])
              for name in ("lost", "duplicated", "reordered", "overflowed")}
    text = ", ".join(f"{count} {name}" for name, count in totals.items() if count)
    return f" ({text})" if text else ""
