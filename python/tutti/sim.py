"""`tutti sim`: an algorithm of the list, unchanged, on a simulated machine. In Python and in notebooks the module can
be called: `tutti.sim("allreduce", "degree_k:degree=3", nodes=[4, 16], bytes=[4, 1024])` returns NumPy arrays."""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti import dcp_sim, native, networks
from tutti.errors import UserError

PROGRESS = ("blocking", "host", "interrupt")


@dataclass(frozen=True)
class Surroundings:
    """What happens around a collective. Times in microseconds."""

    compute: float = 0.0        # by every rank, in every iteration
    progress: str = "blocking"  # blocking, host (moves in the wait only) or interrupt
    noise_period: float = 0.0   # every rank's processor is taken away once in so long ...
    noise: float = 0.0          # ... for this
    skew: float = 0.0           # ranks come up to so much later
    seed: int = 1


QUIET = Surroundings()


def simulate(op: str, alg: str, net: str, nodes: int, ppn: int = 1, size: int = 4, root: int = 0,
             repeat: int = 1, per_rank: bool = False, trace: bool = False,
             around: Surroundings = QUIET, in_layers: str = "") -> dict[str, Any]:
    """One point: `us` is when the last rank is through, the average of `repeat` collectives back to back; `events`
    of the simulation and `interrupts` taken; with `per_rank` both of each rank (`per_rank_us`,
    `per_rank_interrupts`), with `trace` the puts between nodes
    (`messages`: from, to, bytes, posted, visible). `in_layers`: what is taken on the nodes and between their leaders,
    as TUTTI_ALG names it; else what selection takes."""
    if dcp_sim.is_dedicated(alg):
        if per_rank or trace or root or in_layers:
            raise UserError(f"--alg {alg}: dedicated processors are simulated without --timeline, --goal, --root and "
                            "--layer-alg")
        return dcp_sim.simulate(op, alg, net, nodes, ppn, size, repeat, around.compute,
                                (around.noise_period, around.noise), around.skew, around.seed)
    core = native.core()
    try:
        return core.simulate(f"{op}={alg}", networks.path_of(net), nodes, ppn, size, root, repeat, per_rank, trace,
                             around.compute, around.progress, around.noise_period, around.noise, around.skew,
                             around.seed, in_layers)
    except (ValueError, TypeError) as error:
        raise UserError(str(error).split("\n")[0]) from None


def arrays(op: str, alg: str, nodes: int | Iterable[int], bytes: int | Iterable[int] = 4,  # noqa: A002
           net: str = "via2003", ppn: int = 1, root: int = 0, repeat: int = 1,
           around: Surroundings = QUIET) -> dict[str, Any]:
    """A sweep as NumPy arrays: `nodes`, `bytes`, and by (nodes, bytes) `us` and `events`; `per_rank_us` is a list of
    arrays in the same order, flat."""
    try:
        import numpy
    except ImportError:
        raise UserError("tutti.sim(...) needs NumPy: pip install 'tutti[plot]'") from None
    counts = [nodes] if isinstance(nodes, int) else list(nodes)
    sizes = [bytes] if isinstance(bytes, int) else list(bytes)
    points = [simulate(op, alg, net, n, ppn, b, root, repeat, per_rank=True, around=around)
              for n in counts for b in sizes]
    shape = (len(counts), len(sizes))
    return {"nodes": numpy.array(counts), "bytes": numpy.array(sizes),
            "us": numpy.array([point["us"] for point in points]).reshape(shape),
            "events": numpy.array([point["events"] for point in points], dtype=numpy.uint64).reshape(shape),
            "per_rank_us": [numpy.array(point["per_rank_us"]) for point in points]}


class _CallableModule(types.ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return arrays(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule


def numbers(text: str, what: str) -> list[int]:
    """A list such as 4,64,1K."""
    values = [native.core().bytes_of(part) for part in text.split(",")]
    if not values or min(values) < 0:
        raise UserError(f"--{what} takes whole numbers such as 4 or 4,64,1K, not '{text}'")
    return values


def parse_noise(text: str) -> tuple[float, float]:
    """PERIOD:DURATION in microseconds."""
    try:
        period, duration = (float(part) for part in text.split(":"))
    except ValueError:
        raise UserError(f"--noise takes PERIOD:DURATION in microseconds, such as 1000:25, not '{text}'") from None
    if not 0 < duration < period:
        raise UserError("--noise: the duration must be above 0 and below the period")
    return period, duration


def command(
    op: Annotated[str, typer.Argument(metavar="OP", help="The collective: bcast, reduce, allreduce, barrier, ...")],
    alg: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE],...", help="Algorithms; tutti info lists them.")],
    nodes: Annotated[str, typer.Option(metavar="LIST", help="Numbers of nodes.")],
    ppn: Annotated[int, typer.Option(min=1, help="Processes of a node; they share its NIC.")] = 1,
    size: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Sizes of the message.")] = "4",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "via2003",
    layer_alg: Annotated[str, typer.Option(metavar="OP=NAME[:KEY=VALUE],...", help="What a layered algorithm takes on the "
                                           "nodes and between their leaders, where it can run there.")] = "",
    root: Annotated[int, typer.Option(min=0, help="Of a rooted collective.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Collectives back to back; their average is given.")] = 1,
    compute: Annotated[float, typer.Option(min=0, metavar="US", help="Computation in every iteration.")] = 0.0,
    progress: Annotated[str, typer.Option(metavar="|".join(PROGRESS), help="Who moves a collective while the program "
                                          "computes: nobody (it is called afterwards), only the wait, or interrupts.",
                                          )] = "blocking",
    noise: Annotated[Optional[str], typer.Option(metavar="PERIOD:DURATION", help="Take every processor away once in "
                                                 "PERIOD for DURATION us, at a time that differs by rank.")] = None,
    skew: Annotated[float, typer.Option(min=0, metavar="US", help="Ranks come up to so much later.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of noise and skew.")] = 1,
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows here.")] = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw the times by nodes, by bytes or by "
                                                 "algorithm (PNG, SVG, PDF).")] = None,
    timeline: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw who puts to whom when; one "
                                                     "point only.")] = None,
    goal: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Write the messages as a GOAL schedule for "
                                                 "LogGOPSim; one point only.")] = None,
) -> None:
    """Run algorithms in virtual time on a network that is described by a profile."""
    from tutti import sim_output

    for path in (plot, timeline):
        if path is not None:
            sim_output.check(path)
    if layer_alg and ppn == 1:
        raise UserError("--layer-alg is for nodes with several processes: --ppn 2 or more")
    period, duration = parse_noise(noise) if noise is not None else (0.0, 0.0)
    around = Surroundings(compute, progress, period, duration, skew, seed)
    points = [(a, n, b) for a in alg.split(",") for n in numbers(nodes, "nodes") for b in numbers(size, "bytes")]
    trace = timeline is not None or goal is not None
    if trace and len(points) > 1:
        raise UserError("--timeline and --goal show one run: one algorithm, one --nodes, one --bytes")
    rows, result = [], {}
    for a, n, b in track(points, "simulating", console=Console(stderr=True), disable=len(points) < 3, transient=True):
        begun = time.perf_counter()
        result = simulate(op, a, net, n, ppn, b, root, repeat, trace=trace, around=around, in_layers=layer_alg)
        rows.append({"bench": "sim", "op": op, "alg": a, "net": net, "bytes": b, "np": n * ppn, "nodes": n,
                     "ppn": ppn, "us": result["us"], "events": result["events"],
                     "seconds": time.perf_counter() - begun, "compute_us": compute, "progress": progress,
                     "layer_alg": layer_alg, "noise_period_us": period, "noise_us": duration, "skew_us": skew, "seed": seed})
    table = Table("algorithm", "nodes", "ranks", "bytes", "us", "events", "seconds", title=f"{op} on {net}",
                  title_justify="left")
    for row in rows:
        table.add_row(row["alg"], str(row["nodes"]), str(row["np"]), str(row["bytes"]), f"{row['us']:.3f}",
                      f"{row['events']:,}", f"{row['seconds']:.2f}")
    Console().print(table)
    if json_path is not None:
        write_json(json_path, rows)
    if plot is not None:
        sim_output.draw(rows, plot)
    if timeline is not None:
        sim_output.draw_timeline(result["messages"], rows[0], timeline)
    if goal is not None:
        sim_output.write_goal(result["messages"], rows[0]["np"], goal)


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    write_text(path, json.dumps(rows, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
