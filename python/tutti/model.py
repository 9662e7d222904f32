"""`tutti model`: the papers' analytical models, without simulating anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from tutti import native, networks
from tutti.errors import UserError
from tutti.sim import numbers, write_json

BLOCKS = (1024, 2048, 3072, 4096, 5120)
DEGREES = (1, 3, 7, 15)
PACKET = 1024


def broadcast(net: str, nodes: int, size: int, block: int) -> float:
    """VIA-2003's broadcast by RDMA write, in microseconds."""
    return native.core().model_broadcast(networks.path_of(net), nodes, size, block)


def extrapolated_send_receive(net: str, nodes: int, size: int) -> float:
    """What the paper compares a broadcast with at large numbers of nodes: log2 N times that of two."""
    return math.log2(nodes) * native.core().model_send_receive(networks.path_of(net), size, PACKET)


def allreduce(net: str, nodes: int, size: int, degree: int, worst: bool) -> float:
    """VIA-2003's degree-k allreduce, in microseconds."""
    return native.core().model_allreduce(networks.path_of(net), nodes, size, degree, worst)


def _rows(op: str, net: str, nodes: int, size: int) -> list[dict[str, Any]]:
    common = {"bench": "model", "op": op, "net": net, "nodes": nodes, "bytes": size}
    if op == "bcast":
        rows = [{**common, "alg": f"binomial:block={block}", "us": broadcast(net, nodes, size, block)}
                for block in BLOCKS]
        return [*rows, {**common, "alg": "sendrecv_binomial", "us": extrapolated_send_receive(net, nodes, size)}]
    return [{**common, "alg": f"degree_k:degree={degree}", "us": allreduce(net, nodes, size, degree, False),
             "us_worst": allreduce(net, nodes, size, degree, True)} for degree in DEGREES if degree < nodes]


def command(
    op: Annotated[str, typer.Argument(metavar="bcast|allreduce", help="The collective.")],
    nodes: Annotated[str, typer.Option(metavar="LIST", help="Numbers of nodes.")],
    size: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Sizes of the message.")] = "4",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "via2003",
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows here.")] = None,
) -> None:
    """Analytical models (VIA-2003, section 5): every block or degree, the best marked."""
    if op not in ("bcast", "allreduce"):
        raise UserError(f"there are models of bcast and allreduce, not of '{op}'")
    table = Table("nodes", "bytes", "algorithm", "us", "worst case", "", title=f"{op} on {net}", title_justify="left")
    rows = []
    for n in numbers(nodes, "nodes"):
        if n < 2:
            raise UserError("--nodes: a model needs two nodes or more")
        for b in numbers(size, "bytes"):
            try:
                point = _rows(op, net, n, b)
            except ValueError as error:
                raise UserError(str(error).split("\n")[0]) from None
            best = min(row["us"] for row in point)
            for row in point:
                worst = f"{row['us_worst']:.3f}" if "us_worst" in row else ""
                mark = "best" if row["us"] == best else ""
                table.add_row(str(n), str(b), row["alg"], f"{row['us']:.3f}", worst, mark)
            rows += point
    Console().print(table)
    if json_path is not None:
        write_json(json_path, rows)
