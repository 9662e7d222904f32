"""`tutti tune`: a profile of this machine, measured."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tutti import machine, native
from tutti.errors import Failure, UserError
from tutti.sim import write_json, write_text


def measure() -> dict[str, float]:
    """The terms of [host] in microseconds (and per byte)."""
    try:
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


def command(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the profile.")] = Path("machine.toml"),
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the terms here.")] = None,
    dcp: Annotated[bool, typer.Option(
        "--dcp", help="Measure dedicated collective processors instead, and propose a ratio.")] = False,
    mpi: Annotated[str, typer.Option(metavar="NAME", help="With --dcp: the MPI to measure with.")] = "mpich",
    np: Annotated[int, typer.Option("--np", min=2, help="With --dcp: ranks of the program.")] = 2,
    ratio: Annotated[str, typer.Option(metavar="LIST", help="With --dcp: what to try.")] = "1,1:2,1:1",
    sizes: Annotated[str, typer.Option("--bytes", metavar="LIST", help="With --dcp: the application's sizes; the "
                                       "largest decides.")] = "8,1K",
    overlap: Annotated[float, typer.Option(
        min=0, metavar="US", help="With --dcp: computation that the application has for each collective to hide "
        "behind; 0: none.")] = 0.0,
    app: Annotated[Optional[Path], typer.Option(
        metavar="PROFILE", help="With --dcp: a file of tutti run --report-json; says whether that application "
        "gains.")] = None,
    point: Annotated[float, typer.Option(
        min=0, metavar="S", help="With --app: seconds of its point-to-point communication, which the profile does not "
        "know.")] = 0.0,
    rounds: Annotated[int, typer.Option(min=1, help="With --dcp: how often each ratio is started.")] = 3,
) -> None:
    """Measure this machine and write a network profile of it, for tutti sim, model and explain; with --dcp, find the
    ratio of dedicated collective processors to an application's processes."""
    if dcp:
        from tutti import tune_dcp

        tune_dcp.run(mpi, np, ratio, sizes, overlap, app, point, rounds, json_path)
        return
    if out.suffix != ".toml":
        raise UserError(f"'{out}' is not a name for a profile: it must end in .toml")
    terms = measure()
    write_text(out, profile(terms, out.stem))
    for key, value in terms.items():
        print(f"{key:12} {value:.6g} us")
    print(f"written to {out}; try: tutti explain allreduce --bytes 8 --ppn {machine.cpus().usable} --net {out}")
    if json_path is not None:
        rows: list[dict[str, Any]] = [{"bench": "tune", "term": key, "us": value} for key, value in terms.items()]
        write_json(json_path, rows)
