"""What the papers claim (claims.toml), and what comes out here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tutti.errors import UserError
from tutti.paper import allgather, cdcp, multicast, rendezvous, via
from tutti.paper.verdict import Part, Verdict
from tutti.report.files import read_toml

EVALUATIONS: dict[str, Callable[[dict[str, Any]], Sequence[Part]]] = {
    **via.EVALUATIONS, **multicast.EVALUATIONS, **rendezvous.EVALUATIONS, **allgather.EVALUATIONS, **cdcp.EVALUATIONS,
}


def claims() -> list[dict[str, Any]]:
    return read_toml(Path(__file__).parent / "claims.toml", "tutti paper")["claim"]


def claim_of(name: str) -> dict[str, Any]:
    """Raises UserError where there is none of this id."""
    known = claims()
    for claim in known:
        if claim["id"] == name:
            return claim
    raise UserError(f"there is no claim '{name}'; there are {', '.join(claim['id'] for claim in known)}")


def evaluate(claim: dict[str, Any]) -> Verdict:
    return Verdict(claim, EVALUATIONS[claim["id"]](claim))
