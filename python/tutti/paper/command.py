"""`tutti paper`: every claim of the papers, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tutti.paper.claims import NOT_BUILT, claims, evaluate
from tutti.report.files import write_json


def command(
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows here.")] = None,
) -> None:
    """Every claim of the papers: its figure, ours, whether it holds, and why. Exit status 1 where one does not."""
    rows = [evaluate(claim) for claim in track(claims(), "evaluating", console=Console(stderr=True), transient=True)]
    table = Table("claim", "role", "paper", "ours", "holds", "why", show_lines=True)
    for row in rows:
        holds = "yes" if row["holds"] else "-" if row["why"] == NOT_BUILT.why else "NO"
        table.add_row(row["id"], row["role"], row["paper"], row["ours"], holds, row["why"])
    Console().print(table)
    built = [row for row in rows if row["why"] != NOT_BUILT.why]
    print(f"{sum(row['holds'] for row in built)} of {len(built)} claims hold; {len(rows) - len(built)} not built yet")
    if json_path is not None:
        write_json(json_path, rows)
    raise typer.Exit(0 if all(row["holds"] for row in rows) else 1)
