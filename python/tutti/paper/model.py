"""`tutti model`: the papers' analytical models, without simulating anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from tutti import native
from tutti.arguments import numbers
from tutti.errors import UserError
from tutti.report.files import write_json
from tutti.sim import networks

BLOCKS = (1024, 2048, 3072, 4096, 5120)
DEGREES = (1, 3, 7, 15)
RATIOS = (4, 8, 16)  # APPs to a dedicated processor
PACKET = 1024
OPS = ("bcast", "allreduce", "allgather", "send")


def broadcast(net: str, nodes: int, size: int, block: int) -> float:
    """VIA-2003's broadcast by RDMA write, in microseconds."""
    return native.core().model_broadcast(networks.path_of(net), nodes, size, block)


def extrapolated_send_receive(net: str, nodes: int, size: int) -> float:
    """What the paper compares a broadcast with at large numbers of nodes: log2 N times that of two."""
    return math.log2(nodes) * native.core().model_send_receive(networks.path_of(net), size, PACKET)


def allreduce(net: str, nodes: int, size: int, degree: int, case: str) -> float:
    """VIA-2003's degree-k allreduce, in microseconds. Cases: best, worst, uncontended (src/model/via2003.hpp)."""
    return native.core().model_allreduce(networks.path_of(net), nodes, size, degree, case)


def _allgather(net: str, nodes: int, ppn: int, size: int) -> dict[str, float]:
    """ALLGATHER-2006: the original, and through the shared buffer with and without overlap."""
    core, path = native.core(), networks.path_of(net)
    return {"sendrecv_recursive_doubling": core.model_allgather_send_receive(path, nodes, ppn, size, 5120),
            "shared_buffer:overlap=0": core.model_allgather_shared_buffer(path, nodes, ppn, size, False),
            "shared_buffer": core.model_allgather_shared_buffer(path, nodes, ppn, size, True)}


def _send(net: str, size: int) -> dict[str, float]:
    """RNDV-2006: until the receiver's wait is over; both sides wait at once."""
    return {protocol: native.core().model_rendezvous(networks.path_of(net), protocol, size, 0.0, 0.0)[1]
            for protocol in ("write", "read", "read_interrupt")}


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _rows(op: str, net: str, nodes: int, ppn: int, size: int) -> list[dict[str, Any]]:
    common = {"bench": "model", "op": op, "net": net, "nodes": nodes, "ppn": ppn, "bytes": size}
    if op == "allgather":
        if not _power_of_two(nodes) or not _power_of_two(ppn):
            raise UserError("--nodes and --ppn: the models of allgather are of powers of two")
        return [{**common, "alg": alg, "us": us} for alg, us in _allgather(net, nodes, ppn, size).items()]
    if op == "send":
        if nodes != 2 or size < 1:
            raise UserError("--nodes and --bytes: a message goes between 2 nodes and has 1 byte or more")
        return [{**common, "alg": alg, "us": us} for alg, us in _send(net, size).items()]
    if op == "bcast":
        rows = [{**common, "alg": f"binomial:block={block}", "us": broadcast(net, nodes, size, block)}
                for block in BLOCKS]
        rows.append({**common, "alg": "sendrecv_binomial", "us": extrapolated_send_receive(net, nodes, size)})
        cast = native.core().model_multicast(networks.path_of(net), nodes, size)
        return rows + [{**common, "alg": alg, "us": us, "us_worst": last} for alg, (us, last) in cast.items()]
    rows = [{**common, "alg": f"degree_k:degree={degree}", "us": allreduce(net, nodes, size, degree, "best"),
             "us_worst": allreduce(net, nodes, size, degree, "worst")} for degree in DEGREES if degree < nodes]
    for ratio in (ratio for ratio in RATIOS if ratio <= nodes):
        us = native.core().model_dedicated(networks.path_of(net), -(-nodes // ratio), ratio, size)
        rows.append({**common, "alg": f"dcp:ratio={ratio}", "us": us, "us_worst": us})
    return rows


def command(
    op: Annotated[str, typer.Argument(metavar="|".join(OPS), help="The collective, or send: a message by rendezvous.")],
    nodes: Annotated[str, typer.Option(metavar="LIST", help="Numbers of nodes.")],
    size: Annotated[str, typer.Option("--bytes", metavar="LIST", help="Sizes of the message.")] = "4",
    ppn: Annotated[int, typer.Option(min=1, help="Processes on each node, for allgather.")] = 1,
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml.")] = "via2003",
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
) -> None:
    """Compute the papers' analytical models: every variant, with the best marked.

    The models are those of VIA-2003 (section 5), MCAST-2007, ALLGATHER-2006, RNDV-2006 and CDCP-2008. For multicast the time is
    the mean of the members, and the worst case that of the last one."""
    if op not in OPS:
        raise UserError(f"there are models of {', '.join(OPS)}, not of '{op}'")
    if ppn != 1 and op != "allgather":
        raise UserError(f"--ppn: the models of {op} are of one process on each node")
    table = Table("nodes", "bytes", "algorithm", "us", "worst case", "", title=f"{op} on {net}", title_justify="left")
    rows = []
    for n in numbers(nodes, "nodes"):
        if n < 2:
            raise UserError("--nodes: a model needs two nodes or more")
        for b in numbers(size, "bytes"):
            try:
                point = _rows(op, net, n, ppn, b)
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
