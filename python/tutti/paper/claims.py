"""What the papers claim, and what comes out here.

A claim of a benefit holds when it comes out within five percentage points; one of an order ("best", "always",
"between") only when it comes out at every point that was tried. Calibration claims prove nothing: the profile's
unpublished terms were fitted to them, which is said in the profile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutti.paper import allgather, cdcp, multicast, rendezvous, via
from tutti.paper.outcome import Outcome

EVALUATIONS: dict[str, Callable[[dict[str, Any]], Outcome]] = {
    **via.EVALUATIONS, **multicast.EVALUATIONS, **rendezvous.EVALUATIONS, **allgather.EVALUATIONS,
}
NOT_BUILT = Outcome("", False, "not built yet")


def claims() -> list[dict[str, Any]]:
    return json.loads((Path(__file__).parent / "claims.json").read_text())


def evaluate(claim: dict[str, Any]) -> dict[str, Any]:
    """One row: id, paper, ours, holds, why, role."""
    evaluation = EVALUATIONS.get(claim["id"])
    if dedicated := cdcp.EVALUATIONS.get(claim["id"]):
        outcome = Outcome(*dedicated(claim))
    else:
        outcome = evaluation(claim) if evaluation else NOT_BUILT
    return {"id": claim["id"], "paper": claim["paper"], "ours": outcome.ours, "holds": outcome.holds,
            "why": outcome.why, "role": claim["role"]}
