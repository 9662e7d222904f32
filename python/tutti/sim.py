"""`tutti sim`: an algorithm of the list, unchanged, on a simulated machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti import native, networks
from tutti.errors import UserError


def simulate(op: str, alg: str, net: str, nodes: int, ppn: int = 1, size: int = 4, root: int = 0,
             repeat: int = 1, per_rank: bool = False) -> dict[str, Any]:
    """One point: `us` is when the last rank is through, the average of `repeat` collectives back to back; `events`
    of the simulation; with `per_rank` also the time of each rank. Nothing else is on the machine."""
    core = native.core()
    try:
        return core.simulate(f"{op}={alg}", networks.path_of(net), nodes, ppn, size, root, repeat, per_rank)
    except (ValueError, TypeError) as error:
        raise UserError(str(error).split("\n")[0]) from None


def numbers(text: str, what: str) -> list[int]:
    """A list such as 4,64,1K."""
    values = [native.core().bytes_of(part) for part in text.split(",")]
    if not values or min(values) < 0:
        raise UserError(f"--{what} takes whole numbers such as 4 or 4,64,1K, not '{text}'")
    return values


def command(
    op: Annotated[str, typer.Argument(metavar="OP", help="The collective: bcast, reduce, allreduce, barrier, ...")],
    alg: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE]", help="The algorithm; tutti info lists them.")],
    nodes: Annotated[str, typer.Option(metavar="LIST", help="Numbers of nodes.")],
    ppn: Annotated[int, typer.Option(min=1, help="Processes of a node; they share its NIC.")] = 1,
    size: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Sizes of the message.")] = "4",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "via2003",
    root: Annotated[int, typer.Option(min=0, help="Of a rooted collective.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Collectives back to back; their average is given.")] = 1,
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows here.")] = None,
) -> None:
    """Run an algorithm in virtual time on a network that is described by a profile."""
    points = [(n, b) for n in numbers(nodes, "nodes") for b in numbers(size, "bytes")]
    rows = []
    for n, b in track(points, "simulating", console=Console(stderr=True), disable=len(points) < 3, transient=True):
        begun = time.perf_counter()
        result = simulate(op, alg, net, n, ppn, b, root, repeat)
        rows.append({"bench": "sim", "op": op, "alg": alg, "net": net, "bytes": b, "np": n * ppn, "nodes": n,
                     "ppn": ppn, "us": result["us"], "events": result["events"],
                     "seconds": time.perf_counter() - begun})
    table = Table("nodes", "ranks", "bytes", "us", "events", "seconds", title=f"{op} {alg} on {net}",
                  title_justify="left")
    for row in rows:
        table.add_row(str(row["nodes"]), str(row["np"]), str(row["bytes"]), f"{row['us']:.3f}", f"{row['events']:,}",
                      f"{row['seconds']:.2f}")
    Console().print(table)
    if json_path is not None:
        write_json(json_path, rows)


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    try:
        path.write_text(json.dumps(rows, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
