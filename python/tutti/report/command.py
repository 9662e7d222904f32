"""`tutti report`: the page of a report that a job has written as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tutti import native
from tutti.errors import UserError


def command(
    report: Annotated[Path, typer.Argument(
        metavar="FILE.json", help="A report as JSON: tutti run --report=FILE.json, or --report-json FILE.json.")],
    html: Annotated[Optional[Path], typer.Option(
        "--html", metavar="FILE", help="The page to write. [default: FILE.html]", show_default=False)] = None,
) -> None:
    """Draw the report of a job that has ended as a page for browsers."""
    text = read(report)
    page = html if html is not None else report.with_suffix(".html")
    try:
        page.write_text(native.core().report_page(text))
    except OSError as error:
        raise UserError(f"{page}: {error.strerror}") from None
    print(page)


def read(path: Path) -> str:
    """Raises UserError for what is no report as this version writes it."""
    try:
        text = path.read_text()
        found: Any = json.loads(text)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except ValueError:  # neither text nor JSON
        raise UserError(f"{path} is no JSON: a job writes it with tutti run --report=FILE.json") from None
    if not isinstance(found, dict) or not {"tutti", "rows", "waits", "trials"} <= found.keys():
        raise UserError(f"{path} is no report of tutti's")
    if "profile" not in found:
        raise UserError(f"{path} was written by tutti {found['tutti']}, whose reports have no call sites")
    return text
