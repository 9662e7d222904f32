"""`tutti tune`: a profile of this machine, measured."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console

from tutti import native
from tutti.arguments import numbers
from tutti.bench import options
from tutti.choice import choices, host
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.host.mpis import Mpi
from tutti.report.files import write_json, write_text
from tutti.report.waiting import waiting


def measure() -> dict[str, float]:
    """The terms of [host] in microseconds (and per byte)."""
    try:
        with waiting("measuring this machine"):
            return dict(native.core().measure_host())
    except ValueError as error:
        raise Failure(str(error)) from None


def profile(terms: dict[str, float], name: str) -> str:
    """As TOML. There is no table for a network: it describes one node."""
    usable = machine.cpus().usable
    when = time.strftime("%Y-%m-%d", time.gmtime())
    return f'''name = "{name}"
source = "measured by tutti tune on {when}: {platform.machine()}, {usable} processors; medians of 15 rounds, one node only"

[host]                 # microseconds
Tc_per_byte = {terms["Tc_per_byte"]:.9f}   # copy of 64 KiB that lie in the cache
To = {terms["To"]:.6f}             # reduction: one element
To_per_byte = {terms["To_per_byte"]:.9f}   # and each further byte: sums of 32-bit integers
line = {terms["line"]:.6f}           # a cache line from one core to another
call = {terms["call"]:.6f}           # cross-memory attach, one word
counter_bytes = 8
copied_bytes = 0
'''


def _against(mpi: Mpi, points: list[choices.Point]) -> list[choices.Point]:
    """The rules for a node, compared with the MPI's own collectives."""
    console = Console(stderr=True)
    decided = [point for point in points if point.where != "node"]
    for ranks in sorted({point.ranks for point in points if point.where == "node"}):
        here = [point for point in points if (point.where, point.ranks) == ("node", ranks)]
        decided += host.measure(here, mpi, ranks, console)
    return decided


def _write(path: Path, points: list[choices.Point], mpi: Mpi | None) -> list[str]:
    lines = choices.rules(points)
    when = time.strftime("%Y-%m-%d", time.gmtime())
    head = [f"# Written by tutti tune on {when}. All ranks must be given the same: TUTTI_CHOICES={path.name}"]
    if mpi is not None:
        head += [f"# Where it says mpi: {mpi.product} {mpi.version}, by its blocking collectives. Such a rule holds for",
                 "# non-blocking and persistent ones, too, and for buffers on GPUs: they are as good as that MPI's own."]
    write_text(path, "\n".join([*head, "", *lines]) + "\n")
    return lines


def _choose(path: Path, ranks: str, nodes: str, net: str, mpi: Mpi | None) -> None:
    usable = machine.cpus().usable
    on_node = numbers(ranks, "np") if ranks else [usable] if usable > 1 else []
    between = numbers(nodes, "nodes") if nodes else []
    if mpi is not None:
        host.check(mpi)  # before minutes of measuring
    points = choices.tune(on_node, between, net)
    if not points:
        raise Failure("there is nothing to choose: one processor, and no --nodes")
    lines = _write(path, points, None)
    if mpi is not None:  # what was measured so far stays if this fails
        lines = _write(path, _against(mpi, points), mpi)
    rules = [line for line in lines if "#" in line]
    changed = sum("built-in, " not in line for line in rules)
    print(f"{len(rules)} rules written to {path}, {changed} of them other than built in; TUTTI_CHOICES={path} uses them")


def _program_ranks(text: str) -> int:
    """Of --dcp. Raises UserError."""
    if text and not (text.isdigit() and int(text) >= 2):
        raise UserError(f"--np {text}: with --dcp, a number of ranks from 2 on")
    return int(text or 2)


def command(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the profile.")] = Path("machine.toml"),
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the terms to this file.")] = None,
    dcp: Annotated[bool, typer.Option(
        "--dcp", help="Measure dedicated collective processors instead, and propose a ratio.")] = False,
    mpi: Annotated[Optional[str], typer.Option(metavar="NAME", help="With --dcp or --lab: the MPI to measure with (default: "
        "mpich). With --choices: leave to this MPI what it does faster.")] = None,
    ratio: Annotated[str, typer.Option(metavar="LIST", help="With --dcp: ratios to try.")] = "1,1:2,1:1",
    sizes: Annotated[str, typer.Option("--bytes", metavar="LIST", help="With --dcp: the application's sizes. The largest "
        "decides.")] = "8,1K",
    overlap: Annotated[float, typer.Option(
        min=0, metavar="US", help="With --dcp: computation that each collective can hide behind. 0: none.")] = 0.0,
    app: Annotated[Optional[Path], typer.Option(
        metavar="PROFILE", help="With --dcp: a file of tutti run --report-json. Says whether that application gains.")] = None,
    save: Annotated[Optional[Path], typer.Option(
        metavar="FILE", help="With --app: keep the costs and the application's mix, for tutti run --dcp auto:FILE.")] = None,
    point: Annotated[float, typer.Option(
        min=0, metavar="S", help="With --app: seconds of its point-to-point communication, which the profile does not "
        "know.")] = 0.0,
    rounds: Annotated[int, typer.Option(min=1, help="With --dcp or --lab: how often the measurement is started.")] = 3,
    lab: options.LabNodes = None,
    latency: options.Latency = None,
    rate: options.Rate = None,
    choices_path: Annotated[Optional[Path], typer.Option("--choices", metavar="FILE", help="Also choose algorithms, and write "
        "the rules to this file, for TUTTI_CHOICES.")] = None,
    ranks: Annotated[str, typer.Option("--np", metavar="LIST", help="With --choices: numbers of ranks to measure on this node "
        "(default: one for each processor). With --dcp: ranks of the program (default: 2).")] = "",
    nodes: Annotated[str, typer.Option(metavar="LIST", help="With --choices: numbers of nodes to choose for, by the cost "
        "model on the profile of --net.")] = "",
    net: Annotated[str, typer.Option(metavar="PROFILE", help="With --nodes: the network between them.")] = "",
) -> None:
    """Measure this machine, and write a network profile of it for tutti sim, model and explain.

    With --choices it also writes which algorithms to use here. With --dcp it finds the ratio of dedicated collective
    processors to an application's processes instead."""
    from tutti.bench.texts import LabRequest

    in_lab = LabRequest.parse(lab, latency, rate)
    if in_lab is not None and (choices_path is not None or json_path is not None or dcp):
        raise UserError("--lab measures the network between two nodes of a lab; it goes with FILE, --mpi and --rounds only")
    if in_lab is not None and in_lab.nodes != 2:
        raise UserError(f"--lab {in_lab.nodes}: the network is measured between two nodes; say --lab 2")
    if dcp:
        from tutti.tune import dcp as dedicated

        dedicated.run(mpi or "mpich", _program_ranks(ranks), ratio, sizes, overlap, app, point, rounds, json_path, save)
        return
    if out.suffix != ".toml":
        raise UserError(f"'{out}' is not a name for a profile: it must end in .toml")
    if in_lab is not None:
        from tutti.tune import network

        network.run(out, mpi or "mpich", in_lab, rounds)
        return
    if choices_path is None and (ranks or nodes or net):
        raise UserError("--np, --nodes and --net go with --choices FILE")
    if bool(nodes) != bool(net):
        raise UserError("--nodes and --net go together: the number of nodes, and the network between them")
    beside = mpis.find(mpi) if mpi is not None and choices_path is not None else None
    terms = measure()
    write_text(out, profile(terms, out.stem))
    for key, value in terms.items():
        print(f"{key:12} {value:.6g} us")
    print(f"written to {out}; try: tutti explain allreduce --bytes 8 --ppn {machine.cpus().usable} --net {out}")
    if choices_path is not None:
        _choose(choices_path, ranks, nodes, net, beside)
    if json_path is not None:
        rows: list[dict[str, Any]] = [{"bench": "tune", "term": key, "us": value} for key, value in terms.items()]
        write_json(json_path, rows)
