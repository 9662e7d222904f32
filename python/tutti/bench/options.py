"""Options that the commands of `tutti bench` have in common."""

from pathlib import Path
from typing import Annotated, Optional

import typer

Seed = Annotated[Optional[int], typer.Option(help="Seed of the order of the runs.")]
LabNodes = Annotated[Optional[int], typer.Option(min=2, metavar="NODES", help="Measure in a cluster in a box.")]
Latency = Annotated[Optional[str], typer.Option(metavar="TIME", help="Latency of the lab's network: 500us.")]
Rate = Annotated[Optional[str], typer.Option(metavar="BITS", help="Rate of the lab's links: 1Gbit.")]
Json = Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the command lines and stop.")]
