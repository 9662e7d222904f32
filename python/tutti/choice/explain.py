"""`tutti explain`: which algorithm runs a collective, which could, and what each of them would cost."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti import native
from tutti.errors import UserError
from tutti.report.files import write_json
from tutti.sim import dedicated, extrapolate, networks
from tutti.sim.run import simulate

VARIANTS = {"degree": (1, 3, 7, 15), "block": (1024, 2048, 3072, 4096, 5120), "chords": (1, 32)}
MOST_DATAGRAMS = 5_000_000  # that arrive: more are not simulated, since that takes longer than anybody waits
MPI = "mpi"  # that whose calls they are
WITHIN_A_NODE = (4096, 16384, 65536)  # blocks of shared memory, instead
IN_A_ROW = 16  # small messages within a node: the first one finds cold caches, and free cells
SMALL = 1024
WARM = 1  # between nodes: the first call of two members tells them where to put what they have later on


def variants(name: str, parameter: str, default: int, within_a_node: bool = False) -> list[str]:
    """The texts under which an algorithm is tried: with some values of its parameter."""
    if parameter in ("degree", "chords"):
        return [f"{name}:{parameter}={value}" for value in VARIANTS[parameter]]
    if parameter == "block":
        values = VARIANTS["block"] if default and not within_a_node else WITHIN_A_NODE
        return [f"{name}:block={value}" for value in values]
    return [name]


def listed(op: str) -> list[tuple[str, str, int, str]]:
    """Name, first parameter, its default and source of the algorithms that a choice is made among: all but those that
    are there to be compared with. Raises ValueError."""
    return [line for line in native.core().candidates(op) if not line[3].startswith("a rival of ")]


def too_many_datagrams(op: str, alg: str, size: int, members: int) -> str:
    """Why an algorithm by multicast is not simulated; empty where it is. A datagram is about 2 KB in all profiles."""
    count = size * (members if op == "allgather" else 1) // 2000 * members
    return f"not simulated: about {count:,} datagrams" if "multicast" in alg and count > MOST_DATAGRAMS else ""


def cost(row: dict[str, Any]) -> None:
    """Sets the row's `us`, `extrapolated` and `why`."""
    op, alg, net, size, nodes, ppn = (row[key] for key in ("op", "alg", "net", "bytes", "nodes", "ppn"))
    scattered = row["scattered"]
    if alg == MPI:
        row["why"] = "the MPI's own, which nothing is known of here; tutti bench coll measures it"
        return
    if scattered and dedicated.is_dedicated(alg):
        row["why"] = "dedicated processors are simulated on nodes that are filled in order"
        return

    def simulated(part: int) -> tuple[float, int]:
        repeat = IN_A_ROW if nodes == 1 and part <= SMALL else 1
        result = simulate(op, alg, net, nodes, ppn, part, repeat=repeat, scattered=scattered, warm=WARM if nodes > 1 else 0)
        return result["us"], result["events"]

    # The simulation runs any algorithm on ranks that share nodes, each by itself; a job does not.
    row["why"] = native.core().layer_restriction(f"{op}={alg}", size, nodes, ppn)
    if row["why"]:
        return
    first = extrapolate.first_size(op, alg, nodes, ppn)
    if size > 4 * first:
        try:
            row["why"] = native.core().restriction(f"{op}={alg}", networks.path_of(net), nodes, ppn, size)
        except (ValueError, TypeError) as error:
            raise UserError(str(error).split("\n")[0]) from None
    row["why"] = row["why"] or too_many_datagrams(op, alg, min(size, 4 * first), nodes * ppn)
    if row["why"]:
        return
    try:
        prediction = extrapolate.predict(simulated, op, alg, size, nodes, ppn)
    except UserError as error:
        message = str(error)
        if nodes == 1 and dedicated.is_dedicated(alg) and "describes one node" in message:
            row["why"] = "the dedicated processors are on a second node, to which this profile has no network"
            return
        if "cannot run here: " not in message:
            raise  # not about this algorithm: the profile, or the memory
        row["why"] = message.split("cannot run here: ", 1)[1]
        return
    row["us"] = prediction.us
    row["why" if prediction.us is None else "extrapolated"] = prediction.how


def candidates(op: str, size: int, nodes: int, ppn: int, net: str, multicast: bool = True,
               choices: str = "", progress: bool = True, scattered: bool = False) -> list[dict[str, Any]]:
    """A row for each algorithm and parameter: `us` simulated on the profile, or None and why it cannot run there;
    `extrapolated` says from what where the message is too large to be simulated as it is (empty elsewhere); `chosen`
    marks what selection takes (`reason` then says why), `cheapest` the least time. `choices`: a file as TUTTI_CHOICES
    names, or "". `multicast`: it gets through between the nodes. `scattered`: the processes of a node are dealt out to its
    packages in turn."""
    core = native.core()
    profile = networks.path_of(net)
    if nodes < 1 or ppn < 1:
        raise UserError("--nodes and --ppn are whole numbers from 1")
    try:
        lines, (chosen, reason) = listed(op), core.chosen(op, size, nodes, ppn, multicast, choices, str(profile), scattered)
    except ValueError as error:
        raise UserError(str(error)) from None
    texts = [text for name, parameter, default, _ in lines for text in variants(name, parameter, default)]
    texts.append(MPI)
    if chosen and chosen not in texts:
        texts.append(chosen)
    rows = []
    for text in track(texts, "simulating", console=Console(stderr=True), transient=True, disable=not progress):
        row: dict[str, Any] = {"bench": "explain", "op": op, "alg": text, "bytes": size, "nodes": nodes, "ppn": ppn,
                               "np": nodes * ppn, "net": net, "scattered": scattered, "us": None, "why": "",
                               "chosen": text == chosen, "reason": reason if text == chosen else "", "cheapest": False,
                               "extrapolated": ""}
        cost(row)
        rows.append(row)
    runnable = [row for row in rows if row["us"] is not None]
    if runnable:
        min(runnable, key=lambda row: row["us"])["cheapest"] = True
    return rows


def verdict(rows: list[dict[str, Any]]) -> str:
    """What runs, and why, in a line or two."""
    chosen = next((row for row in rows if row["chosen"]), None)
    if chosen is None:
        return "tutti has no algorithm that can run this; it is left to the MPI"
    if chosen["alg"] == MPI:
        return f"it is left to the MPI: chosen {chosen['reason']}"
    text = f"{chosen['alg']} runs: chosen {chosen['reason']}"
    if chosen["alg"].startswith("multicast"):
        text += ", provided that multicast gets through between the nodes (tried when a job starts; --no-multicast)"
    if chosen["us"] is None:
        return text + f"; it was not simulated ({chosen['why']}), so nothing is said of what would be cheaper"
    cheapest = next((row for row in rows if row["cheapest"]), None)
    if cheapest is None or cheapest["us"] == chosen["us"]:
        return text + "; nothing is cheaper on this profile"
    return (text + f". On this profile {cheapest['alg']} would take {1 - cheapest['us'] / chosen['us']:.0%} less: "
            f"TUTTI_ALG={cheapest['op']}={cheapest['alg']}")


def command(
    op: Annotated[str, typer.Argument(metavar="OP", help="The collective: bcast, allreduce, ...")],
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Size of the message.")] = "8",
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 1,
    ppn: Annotated[int, typer.Option(help="Processes on each node.")] = 1,
    net: Annotated[str, typer.Option(metavar="PROFILE", help="Network: a name, or FILE.toml (tutti tune makes one "
                                     "for this machine).")] = "infiniband",
    node: Annotated[Optional[str], typer.Option(metavar="PROFILE", help="One node with these caches, instead of --net: "
                                                "epyc9654, ...")] = None,
    scattered: Annotated[bool, typer.Option("--scattered", help="Deal the processes of a node out to its packages in turn, "
        "instead of filling one core after the other.")] = False,
    multicast: Annotated[bool, typer.Option(help="Whether multicast gets through between the nodes.")] = True,
    choices: Annotated[Optional[Path], typer.Option(metavar="FILE", help="A site's choices. Default: those that TUTTI_CHOICES "
        "names.")] = None,
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
) -> None:
    """Explain which algorithm runs a collective, and why: all candidates, and what each costs on a profile."""
    value = -1
    with contextlib.suppress(ValueError):
        value = native.core().bytes_of(size)
    if value < 0:
        raise UserError(f"--bytes takes a size such as 8 or 64K, not '{size}'")
    if node is not None and nodes != 1:
        raise UserError("--node is about one node; several are connected by a network: --net")
    net = node or net
    file = str(choices) if choices is not None else os.environ.get("TUTTI_CHOICES", "")
    rows = candidates(op, value, nodes, ppn, net, multicast, file, scattered=scattered)
    table = Table("", "algorithm", "us (simulated)", "", title=f"{op}, {value} B, {nodes} x {ppn} on {net}",
                  title_justify="left")
    for row in sorted(rows, key=lambda row: (row["us"] is None, row["us"] or 0)):
        notes = "chosen" if row["chosen"] else ""
        us = "-" if row["us"] is None else f"{'~ ' if row['extrapolated'] else ''}{row['us']:.3f}"
        table.add_row("*" if row["chosen"] else "", row["alg"], us, ", ".join(filter(None, (
            notes, "cheapest" if row["cheapest"] else "", row["why"], row["extrapolated"]))))
    Console().print(table)
    print(verdict(rows))
    if hierarchy := native.core().divisions(networks.path_of(net), ppn, scattered) if nodes == 1 else "":
        print(f"The ranks run in {hierarchy}; a tree of cells joins those of each before it leaves it.")
    if json_path is not None:
        write_json(json_path, rows)
