"""`tutti sim`: algorithms in virtual time, as a table, a picture, a schedule or rows of JSON."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti.arguments import numbers
from tutti.errors import UserError
from tutti.report import plot as pictures
from tutti.report.files import write_json
from tutti.report.waiting import waiting
from tutti.sim import output
from tutti.sim.run import PROGRESS, Surroundings, parse_noise, parse_poll, simulate


def command(
    op: Annotated[str, typer.Argument(metavar="OP", help="The collective: bcast, reduce, allreduce, barrier, ...")],
    alg: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE],...", help="Algorithms; tutti info lists them.")],
    nodes: Annotated[str, typer.Option(metavar="LIST", help="Numbers of nodes.")],
    ppn: Annotated[int, typer.Option(min=1, help="Processes on each node. They share its network card.")] = 1,
    size: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Sizes of the message.")] = "4",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "via2003",
    layer_alg: Annotated[str, typer.Option(metavar="OP=NAME[:KEY=VALUE],...", help="Algorithms that a hierarchical one takes "
        "on the nodes and between their leaders, where they can run there.")] = "",
    scattered: Annotated[bool, typer.Option("--scattered", help="Deal the processes of a node out to its packages in turn, "
                                            "instead of filling one core after the other.")] = False,
    root: Annotated[int, typer.Option(min=0, help="Root of a rooted collective.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Collectives back to back. The result is their average.")] = 1,
    compute: Annotated[float, typer.Option(min=0, metavar="US", help="Computation in every iteration.")] = 0.0,
    progress: Annotated[str, typer.Option(metavar="|".join(PROGRESS), help="What moves a collective while the program "
        "computes. blocking: nothing, it is called afterwards. host: only the wait. polled: looks in between (--poll). "
        "interrupt: interrupts.",
                                          )] = "blocking",
    poll: Annotated[Optional[str], typer.Option(metavar="EVERY:COST", help="With --progress polled: look at the collective "
        "after every EVERY us of computation, which takes COST us, until it is over.")] = None,
    noise: Annotated[Optional[str], typer.Option(metavar="PERIOD:DURATION", help="Take every processor away once in PERIOD "
        "for DURATION us, at times that differ by rank.")] = None,
    skew: Annotated[float, typer.Option(min=0, metavar="US", help="Ranks arrive late by up to this much.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of noise and skew.")] = 1,
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw the times by nodes, by bytes or by "
                                                 "algorithm (PNG, SVG, PDF).")] = None,
    timeline: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw who puts to whom, and when. For one point "
        "only.")] = None,
    goal: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Write the messages as a GOAL schedule for LogGOPSim. "
        "For one point only.")] = None,
) -> None:
    """Run algorithms in virtual time, on a network that a profile describes."""
    for path in (plot, timeline):
        if path is not None:
            pictures.check(path)
    if layer_alg and ppn == 1:
        raise UserError("--layer-alg is for nodes with several processes: --ppn 2 or more")
    period, duration = parse_noise(noise) if noise is not None else (0.0, 0.0)
    if (poll is not None) != (progress == "polled"):
        raise UserError("--poll EVERY:COST and --progress polled belong together")
    poll_every, poll_us = parse_poll(poll) if poll is not None else (0.0, 0.0)
    around = Surroundings(compute, progress, period, duration, skew, seed, poll_every, poll_us)
    points = [(a, n, b) for a in alg.split(",") for n in numbers(nodes, "nodes") for b in numbers(size, "bytes")]
    trace = timeline is not None or goal is not None
    if trace and len(points) > 1:
        raise UserError("--timeline and --goal show one run: one algorithm, one --nodes, one --bytes")
    rows, result = [], {}
    for a, n, b in track(points, "simulating", console=Console(stderr=True), disable=len(points) < 3, transient=True):
        begun = time.perf_counter()
        # With several points there is a bar.
        with waiting(f"simulating {n * ppn:,} ranks") if len(points) < 3 else contextlib.nullcontext():
            result = simulate(op, a, net, n, ppn, b, root, repeat, trace=trace, around=around, in_layers=layer_alg,
                              scattered=scattered)
        rows.append({"bench": "sim", "op": op, "alg": a, "net": net, "bytes": b, "np": n * ppn, "nodes": n,
                     "ppn": ppn, "us": result["us"], "events": result["events"],
                     "seconds": time.perf_counter() - begun, "compute_us": compute, "progress": progress,
                     "layer_alg": layer_alg, "scattered": scattered, "noise_period_us": period, "noise_us": duration,
                     "skew_us": skew, "seed": seed, "poll_every_us": poll_every, "poll_us": poll_us})
    table = Table("algorithm", "nodes", "ranks", "bytes", "us", "events", "seconds", title=f"{op} on {net}",
                  title_justify="left")
    for row in rows:
        table.add_row(row["alg"], str(row["nodes"]), str(row["np"]), str(row["bytes"]), f"{row['us']:.3f}",
                      f"{row['events']:,}", f"{row['seconds']:.2f}")
    Console().print(table)
    if json_path is not None:
        write_json(json_path, rows)
    if plot is not None:
        output.draw(rows, plot)
    if timeline is not None:
        output.draw_timeline(result["messages"], rows[0], timeline)
    if goal is not None:
        output.write_goal(result["messages"], rows[0]["np"], goal)
