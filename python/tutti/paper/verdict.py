"""What comes of a claim: it has parts, and each part is judged under every reading of the paper that can be defended.

A part holds when it comes out under all of its readings. No reading is left out because it misses, and none is picked
because it hits. One that is only shown beside the others (a lab's time in microseconds says nothing about the paper's) is
not judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

POINTS = 0.05  # a benefit comes out within five percentage points ...
TENTH = 0.10   # ... and a time within a tenth

# Kinds of evidence. "calibrated": the profile's unpublished terms were fitted to this figure, so it proves nothing.
CALIBRATED, SIMULATION, MODEL, ARITHMETIC, LAB = "calibrated", "simulation", "model", "arithmetic", "lab"


@dataclass(frozen=True)
class Reading:
    """What was found under one reading. `holds`: None where it is shown and not judged."""

    under: str
    evidence: str
    ours: str
    holds: bool | None = None


@dataclass(frozen=True)
class Part:
    """One figure of a claim. `verdict`: yes, no, depends (on the reading), or open, where nothing here can judge it."""

    what: str
    paper: str
    readings: Sequence[Reading] = ()
    why: str = ""  # it does not hold, and what was tested to find out; or what its holding does not prove

    @property
    def judged(self) -> list[Reading]:
        return [reading for reading in self.readings if reading.holds is not None]

    @property
    def verdict(self) -> str:
        found = {reading.holds for reading in self.judged}
        if not found:
            return "open"
        return "depends" if len(found) == 2 else "yes" if found == {True} else "no"

    @property
    def evidence(self) -> str:
        """The kinds, each once, in the order of the readings."""
        return ", ".join(dict.fromkeys(reading.evidence for reading in self.readings))


@dataclass(frozen=True)
class Verdict:
    """`claim` is its entry of claims.toml."""

    claim: dict[str, Any]
    parts: Sequence[Part]

    @property
    def holds_in(self) -> str:
        """all, some or none of its parts."""
        holding = [part.verdict == "yes" for part in self.parts]
        return "all" if all(holding) else "some" if any(holding) else "none"

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return {"id": self.claim["id"], "role": self.claim["role"], "kind": self.claim["kind"], "holds_in": self.holds_in,
                "parts": [{"what": part.what, "paper": part.paper, "verdict": part.verdict, "why": part.why,
                           "readings": [vars(reading) for reading in part.readings]} for part in self.parts]}


def benefit(ours: float, baseline: float) -> float:
    return 1 - ours / baseline


def near(found: float, wanted: float) -> bool:
    """Of benefits."""
    return abs(found - wanted) <= POINTS


def near_time(found: float, wanted: float) -> bool:
    return abs(found / wanted - 1) <= TENTH


def percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def whole(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def less(share: float) -> str:
    return f"{percent(share)} less" if share >= 0 else f"{percent(-share)} more"


def indistinct(wanted: float, calibrated: float, what: str) -> str:
    """Says where the tolerance cannot tell a claim from what was fitted: who predicts no difference comes out, too."""
    if not near(wanted, calibrated):
        return ""
    return (f"it is {abs(wanted - calibrated) * 100:.1f} points from {what}, which is fitted: a tolerance of "
            f"{POINTS * 100:.0f} points cannot tell the two")
