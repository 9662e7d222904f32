"""What comes of evaluating a claim of a paper."""

from __future__ import annotations

from dataclasses import dataclass

POINTS = 0.05  # a benefit holds when it comes out within five percentage points


@dataclass(frozen=True)
class Outcome:
    ours: str
    holds: bool
    why: str


def benefit(ours: float, baseline: float) -> float:
    return 1 - ours / baseline
