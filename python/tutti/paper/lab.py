"""The lab's figures beside the others (lab.toml): recorded, not measured anew."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tutti.paper.verdict import LAB, Reading
from tutti.report.files import read_toml


@cache
def figures() -> list[dict[str, Any]]:
    return read_toml(Path(__file__).parent / "lab.toml", "tutti paper")["figure"]


def readings(claim: dict[str, Any], part: str = "") -> list[Reading]:
    """Those of a claim, or of one of its parts. A claim that wants a lab and has no figure says so."""
    found = [Reading("lab", LAB, f"{figure['ours']} ({figure['command']})", figure.get("holds"))
             for figure in figures() if figure["claim"] == claim["id"] and figure.get("part", part) == part]
    if not found and claim.get("lab") and not any(figure["claim"] == claim["id"] for figure in figures()):
        return [Reading("lab", LAB, "not run")]
    return found
