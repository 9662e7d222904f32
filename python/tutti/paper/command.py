"""`tutti paper`: every claim of the papers, part by part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from tutti.paper.claims import claim_of, claims, evaluate
from tutti.paper.verdict import CALIBRATED, LAB, Part, Reading, Verdict
from tutti.report.files import write_json

COLOURS = {"yes": "green", "depends": "yellow", "no": "red", "open": "dim"}


def command(
    claim: Annotated[Optional[str], typer.Option(
        metavar="ID", help="Show this claim alone, with every reading and reason.")] = None,
    json_path: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write all claims to this file.")] = None,
) -> None:
    """Judge every claim of the papers, part by part: its figure, ours, the kind of evidence, and whether it holds.

    `depends`: it holds under some readings of the paper. `open`: nothing here can judge it. The exit status is 1 where a part
    does not hold."""
    wanted = claims() if claim is None else [claim_of(claim)]
    found = [evaluate(one) for one in track(wanted, "evaluating", console=Console(stderr=True), transient=True)]
    if claim is None:
        print_all(found)
    else:
        print_one(found[0])
    if json_path is not None:
        write_json(json_path, [verdict.row() for verdict in found])
    raise typer.Exit(0 if all(verdict.holds_in == "all" for verdict in found) else 1)


def print_all(found: list[Verdict]) -> None:
    widest = max(len(verdict.claim["id"]) for verdict in found)
    table = Table(Column("claim and part", width=widest), "paper", "ours", "evidence", "holds", title_justify="left")
    for verdict in found:
        for number, part in enumerate(verdict.parts):
            what = f"[bold]{verdict.claim['id']}[/bold]\n  {part.what}" if number == 0 else f"  {part.what}"
            table.add_row(what, part.paper, summary(part), part.evidence, coloured(part.verdict),
                          end_section=number == len(verdict.parts) - 1)
    Console().print(table)
    print_reasons(found)
    print(counts(found))


def print_reasons(found: list[Verdict]) -> None:
    """Why a part does not hold, or what its holding does not prove."""
    console = Console(highlight=False)
    for verdict in found:
        for part in verdict.parts:
            if part.why:
                why = part.why[0].upper() + part.why[1:]
                console.print(f"{verdict.claim['id']}, {part.what}: {coloured(part.verdict)}. {why}.")
    print("tutti paper --claim ID shows every reading of one.")


def counts(found: list[Verdict]) -> str:
    held = Counter(verdict.holds_in for verdict in found)
    fitted = sum(verdict.holds_in == "all" and all(
        {reading.evidence for reading in part.judged} == {CALIBRATED} for part in verdict.parts) for verdict in found)
    parts = Counter(part.verdict for verdict in found for part in verdict.parts)
    return (f"{len(found)} claims: {held['all']} hold in all parts ({fitted} of them only as calibrations), {held['some']} in "
            f"some, {held['none']} in none; {parts.total()} parts: {parts['yes']} hold, {parts['depends']} under some readings, "
            f"{parts['no']} do not, {parts['open']} are open")


def print_one(verdict: Verdict) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{verdict.claim['id']}[/bold]: holds in {verdict.holds_in} of its parts")
    for key, value in verdict.claim.items():
        if key != "id":
            console.print(f"  {key}: {said(value)}", markup=False)
    for part in verdict.parts:
        console.print(f"\n[bold]{part.what}[/bold]: the paper has {part.paper}: {coloured(part.verdict)}")
        table = Table("reading", "evidence", "ours", "holds", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for reading in part.readings:
            holds = "shown" if reading.holds is None else "yes" if reading.holds else "no"
            table.add_row(reading.under, reading.evidence, reading.ours, coloured(holds))
        if part.readings:
            console.print(table)
        if part.why:
            console.print(part.why[0].upper() + part.why[1:] + ".", markup=False)


def said(value: Any) -> str:
    """As one reads it, not as TOML has it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {said(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(said(inner) for inner in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def coloured(verdict: str) -> str:
    return f"[{COLOURS.get(verdict, 'dim')}]{verdict}[/]"


def summary(part: Part) -> str:
    """What was found under its readings, in one cell: of many the least and the greatest, and the lab's apart."""
    ours = _different([reading for reading in part.judged if reading.evidence != LAB])
    if len(ours) > 2:
        ours = sorted(ours, key=_number)
        ours = [f"{ours[0]} … {ours[-1]}"]
    lab = [f"lab: {text}" for text in _different([reading for reading in part.readings if reading.evidence == LAB])]
    holding = sum(bool(reading.holds) for reading in part.judged)
    share = f" ({holding} of {len(part.judged)} readings)" if part.verdict == "depends" else ""
    return "; ".join(ours + lab) + share


def _different(readings: Sequence[Reading]) -> list[str]:
    return list(dict.fromkeys(reading.ours.split(" (")[0] for reading in readings))


def _number(text: str) -> float:
    found = re.search(r"\d+(\.\d+)?", text)
    return float(found[0]) * (-1 if text.endswith("more") else 1) if found else 0.0
