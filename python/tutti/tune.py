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
) -> None:
    """Measure this machine and write a network profile of it, for tutti sim, model and explain."""
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
