"""`tutti bench jitter`: what noise and skew cost an allreduce, blocking, progressed by the host, and by interrupts.

A simulated program computes and reduces, again and again. The same program runs without noise, and with it for several
seeds; what is given is how much longer an iteration takes."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti.arguments import numbers
from tutti.report.files import write_json
from tutti.sim.dedicated import simulate as simulate_dedicated
from tutti.sim.run import Surroundings, parse_noise, simulate

ITERATIONS = 50
DEDICATED = "dcp:ratio=8"
WAYS = ("blocking", "host", "interrupt")  # what is polled depends on how often, too


def measure(net: str, alg: str, ranks: int, size: int, compute: float, noise: tuple[float, float], skew: float,
            seeds: int) -> list[dict[str, Any]]:
    """A row for each way of progress; the time of an iteration without noise, and with it (median, least, most)."""
    rows = []
    for progress in WAYS:
        quiet = simulate("allreduce", alg, net, ranks, size=size, repeat=ITERATIONS,
                         around=Surroundings(compute, progress))["us"]
        noisy = [simulate("allreduce", alg, net, ranks, size=size, repeat=ITERATIONS,
                          around=Surroundings(compute, progress, *noise, skew, seed))["us"]
                 for seed in range(1, seeds + 1)]
        rows.append({"bench": "jitter", "op": "allreduce", "alg": alg, "net": net, "np": ranks, "nodes": ranks,
                     "bytes": size, "progress": progress, "compute_us": compute, "quiet_us": quiet,
                     "us": statistics.median(noisy), "us_min": min(noisy), "us_max": max(noisy),
                     "cost": statistics.median(noisy) / quiet - 1, "noise_period_us": noise[0], "noise_us": noise[1],
                     "skew_us": skew, "seeds": seeds, "iterations": ITERATIONS, "why": ""})
    quiet = dedicated(net, ranks, size, compute)
    noisy = [dedicated(net, ranks, size, compute, noise, skew, seed) for seed in range(1, seeds + 1)]
    rows.append({**rows[0], "alg": DEDICATED, "progress": "dedicated", "quiet_us": quiet,
                 "us": statistics.median(noisy), "us_min": min(noisy), "us_max": max(noisy),
                 "cost": statistics.median(noisy) / quiet - 1})
    return rows


def dedicated(net: str, ranks: int, size: int, compute: float, noise: tuple[float, float] = (0.0, 0.0),
              skew: float = 0.0, seed: int = 1) -> float:
    """An iteration with one dedicated processor to eight ranks, each on a node of its own, which has noise too."""
    return simulate_dedicated("allreduce", DEDICATED, net, ranks, 1, max(8, size // 8 * 8), ITERATIONS, compute, noise,
                            skew, seed)["iteration_us"]


def command(
    ranks: Annotated[str, typer.Option("--np", metavar="LIST", help="Numbers of ranks, one to a node.")]
    = "8,16,32,64,128,256,512,1024,2048,4096",
    size: Annotated[int, typer.Option("--bytes", min=1, help="Size of the vector.")] = 8,
    compute: Annotated[float, typer.Option(min=0, metavar="US", help="Computation in every iteration.")] = 1000.0,
    noise: Annotated[str, typer.Option(metavar="PERIOD:DURATION", help="See tutti sim --noise.")] = "10000:100",
    skew: Annotated[float, typer.Option(min=0, metavar="US", help="Ranks start late by up to this much.")] = 0.0,
    seeds: Annotated[int, typer.Option(min=1, help="Number of repetitions, each with other noise.")] = 3,
    alg: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE]", help="The allreduce.")] = "degree_k:degree=3",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "infiniband",
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
) -> None:
    """Simulate what jitter costs an allreduce: blocking, progressed by the host, and by interrupts."""
    wanted = parse_noise(noise)
    rows: list[dict[str, Any]] = []
    counts = numbers(ranks, "np")
    for count in track(counts, "simulating", console=Console(stderr=True), transient=True):
        rows += measure(net, alg, count, size, compute, wanted, skew, seeds)
    table = Table("ranks", "progress", "iteration, quiet (us)", "with jitter (us)", "least to most", "costs",
                  title=f"allreduce {alg}, {size} B, {compute:g} us of computation, noise {noise} us, on {net}",
                  title_justify="left")
    for row in rows:
        table.add_row(str(row["np"]), row["progress"], f"{row['quiet_us']:.1f}", f"{row['us']:.1f}",
                      f"{row['us_min']:.1f} to {row['us_max']:.1f}", f"{row['cost']:+.1%}")
    Console().print(table)
    if json_path is not None:
        write_json(json_path, rows)
