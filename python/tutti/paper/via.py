"""The claims of VIA-2003, by simulation and by its models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tutti import native
from tutti.paper import model
from tutti.paper.outcome import POINTS, Outcome, benefit
from tutti.sim import networks
from tutti.sim.run import simulate

BLOCKS = (1024, 2048, 3072, 4096, 5120)  # data bytes; the paper counts the counter byte: 1025 ... 5121
SIZES = (4, 16, 64, 128, 256, 512, 1024, 2048, 3072, 4096)
NET = "via2003"
SAME_SOURCE = ("model and simulation have the same terms, so this says that they are the same machine, not that either is "
               "the paper's testbed")


def _us(op: str, alg: str, nodes: int, size: int) -> float:
    return simulate(op, alg, NET, nodes, size=size)["us"]


def _judge(found: float, claim: dict[str, Any], why: str, key: str = "benefit") -> Outcome:
    off = found - claim[key]
    return Outcome(f"{found:.1%} less", abs(off) <= POINTS, f"{why}; {off * 100:+.1f} points")


def _bcast_measured(claim: dict[str, Any]) -> Outcome:
    ours = _us("bcast", "binomial:block=3072", claim["nodes"], claim["bytes"])
    baseline = _us("bcast", "sendrecv_binomial:packet=1024", claim["nodes"], claim["bytes"])
    return _judge(benefit(ours, baseline), claim, f"simulated {ours:.2f} us against {baseline:.2f}")


def _bcast_model(claim: dict[str, Any]) -> Outcome:
    ours = model.broadcast(NET, claim["nodes"], claim["bytes"], 3072)
    t1 = _us("bcast", "sendrecv_binomial:packet=1024", 2, claim["bytes"])
    baseline = math.log2(claim["nodes"]) * t1
    times = {block: model.broadcast(NET, claim["nodes"], claim["bytes"], block) for block in BLOCKS}
    best = min(times, key=lambda block: times[block])
    note = "" if times[best] == ours else f"; blocks of {best + 1} would give {benefit(times[best], baseline):.1%}"
    return _judge(benefit(ours, baseline), claim, f"model {ours:.1f} us against log2 N t1 = {baseline:.1f}{note}")


def _block(claim: dict[str, Any]) -> Outcome:
    """Read as it is written: no other block is faster at any of the sizes."""
    beaten: dict[int, tuple[float, int]] = {}
    sizes = range(1025, 5001, 53)
    for size in sizes:
        times = {block: _us("bcast", f"binomial:block={block}", claim["nodes"], size) for block in BLOCKS}
        best = min(times, key=lambda block: times[block])
        if times[3072] > times[best]:
            beaten[size] = (times[3072] / times[best] - 1, best)
    why = f"calibrates Ta; simulated at {len(sizes)} sizes"
    if not beaten:
        return Outcome("3073", True, why)
    size = max(beaten, key=lambda s: beaten[s][0])
    loss, rival = beaten[size]
    why += (f"; best or equal at {len(sizes) - len(beaten)}, beaten from {min(beaten)} to {max(beaten)} B, by {loss:.1%} "
            f"at {size} B: there the second block is so short that it arrives before the first has been copied out, "
            "so that it costs its start-up and hides nothing; one larger block, or two more even ones, do better")
    return Outcome(f"3073 at most sizes, {rival + 1} at {size} B", False, why)


def _model_error(claim: dict[str, Any]) -> Outcome:
    errors = {size: abs(model.broadcast(NET, 16, size, 3072) / _us("bcast", "binomial:block=3072", 16, size) - 1)
              for size in SIZES}
    size = max(errors, key=lambda s: errors[s])
    return Outcome(f"{errors[size]:.2%}", errors[size] <= claim["max_error"],
                   f"largest at {size} B; {SAME_SOURCE}")


def _allreduce_measured(claim: dict[str, Any]) -> Outcome:
    ours = _us("allreduce", f"degree_k:degree={claim['degree']}", claim["nodes"], claim["bytes"])
    baseline = _us("allreduce", "sendrecv_binomial", claim["nodes"], claim["bytes"])
    why = f"simulated {ours:.2f} us against {baseline:.2f}"
    outcome = _judge(benefit(ours, baseline), claim, why)
    if outcome.holds:
        return outcome
    return Outcome(outcome.ours, False, outcome.why + _library_overhead(ours, baseline, claim["nodes"]))


def _library_overhead(ours: float, baseline: float, nodes: int) -> str:
    """What is most likely missing: Tm is charged here for every put, as the broadcast's equation has it."""
    once = ours - math.ceil(math.log2(nodes)) * native.core().network_terms(networks.path_of(NET))["Tm"]
    return (f"; were the library's Tm not paid again for the broadcast half, it would be "
            f"{benefit(once, baseline):.1%}, but the published broadcast has it in every stage")


def _allreduce_model(claim: dict[str, Any]) -> Outcome:
    nodes, size, degree = claim["nodes"], claim["bytes"], claim["degree"]
    baseline = math.log2(nodes) * _us("allreduce", "sendrecv_binomial", 2, size)
    best = model.allreduce(NET, nodes, size, degree, False)
    found = {"benefit": benefit(best, baseline)}
    if "benefit_worst" in claim:
        found["benefit_worst"] = benefit(model.allreduce(NET, nodes, size, degree, True), baseline)
    other = min((1, 3, 7, 15), key=lambda k: model.allreduce(NET, nodes, size, k, False))
    why = f"degree {degree}: model {best:.1f} us against log2 N t1 = {baseline:.1f}"
    if other != degree:
        why += f" (degree {other} would give {benefit(model.allreduce(NET, nodes, size, other, False), baseline):.1%})"
    holds = all(abs(found[key] - claim[key]) <= POINTS for key in found)
    why += "; " + ", ".join(f"{(found[key] - claim[key]) * 100:+.1f} points" for key in found)
    if not holds:
        why += _library_overhead(best, baseline, nodes)
    return Outcome(" / ".join(f"{value:.1%}" for value in found.values()) + " less", holds, why)


def _degree(_: dict[str, Any]) -> Outcome:
    """Every size up to 1024 B and from 2048 B on; "very small" is read as up to 64 B."""
    small = [size for size in SIZES if size <= 1024]
    large = [size for size in (*SIZES, 4608) if size >= 2048]
    wanted = [(4, size, 3) for size in small] + [(8, size, 7) for size in small if size <= 64]
    wanted += [(16, size, 3) for size in small] + [(nodes, size, 1) for nodes in (4, 8, 16) for size in large]
    wrong = []
    for nodes, size, degree in wanted:
        times = {k: _us("allreduce", f"degree_k:degree={k}", nodes, size) for k in (1, 3, 7, 15) if k < nodes}
        best = min(times, key=lambda k: times[k])
        if best != degree:
            wrong.append(f"{nodes} nodes, {size} B: {best}, {times[degree] / times[best] - 1:.1%} before {degree}")
    return Outcome("as published" if not wrong else "; ".join(wrong), not wrong,
                   f"{len(wanted) - len(wrong)} of {len(wanted)} points, simulated")


def _bounds(claim: dict[str, Any]) -> Outcome:
    """Both halves of the claim: between the two cases, and the published largest distance from them (of degree 15 at
    512 B), read as the distance from the nearer of the two."""
    outside, worst = [], (0.0, 0, 0)
    for degree in (1, 3, 7, 15):
        for size in (*SIZES, 4608):
            time = _us("allreduce", f"degree_k:degree={degree}", 16, size)
            low, high = (model.allreduce(NET, 16, size, degree, case) for case in (False, True))
            if not low - 1e-6 <= time <= high + 1e-6:
                outside.append(f"degree {degree}, {size} B: {time:.2f} not in {low:.2f} to {high:.2f}")
            distance = min(abs(time / low - 1), abs(time / high - 1))
            worst = max(worst, (distance, degree, size))
    near = worst[0] <= claim["max_error"]
    return Outcome("between" if not outside else "; ".join(outside), not outside and near,
                   f"largest distance from the nearer case {worst[0]:.2%} (degree {worst[1]}, {worst[2]} B); {SAME_SOURCE}")


def _always_bcast(_: dict[str, Any]) -> Outcome:
    lost, least = [], 1.0
    for size in (*SIZES, 4608, 5000):
        baseline = _us("bcast", "sendrecv_binomial", 16, size)
        for block in BLOCKS:
            gain = benefit(_us("bcast", f"binomial:block={block}", 16, size), baseline)
            least = min(least, gain)
            if gain <= 0:
                lost.append(f"{size} B in blocks of {block + 1}: {-gain:.1%} slower")
    return Outcome("always" if not lost else "; ".join(lost), not lost, f"the least benefit is {least:.1%}, simulated")


def _always_allreduce(_: dict[str, Any]) -> Outcome:
    gains = {size: benefit(_us("allreduce", "degree_k:degree=1", 16, size),
                            _us("allreduce", "sendrecv_binomial", 16, size)) for size in (*SIZES, 4608, 5000)}
    size = min(gains, key=lambda s: gains[s])
    return Outcome("always" if gains[size] > 0 else f"not at {size} B", gains[size] > 0,
                   f"the least benefit is {gains[size]:.1%} at {size} B, simulated")


EVALUATIONS: dict[str, Callable[[dict[str, Any]], Outcome]] = {
    "via.bcast.16.4B": _bcast_measured, "via.bcast.16.4608B": _bcast_measured, "via.bcast.block": _block,
    "via.bcast.512.4B": _bcast_model, "via.bcast.512.4KB": _bcast_model,
    "via.bcast.1024.4B": _bcast_model, "via.bcast.1024.4KB": _bcast_model, "via.model.error": _model_error,
    "via.allreduce.16.4B": _allreduce_measured, "via.allreduce.16.4KB": _allreduce_measured,
    "via.allreduce.degree": _degree, "via.allreduce.512.4B": _allreduce_model,
    "via.allreduce.512.4KB": _allreduce_model, "via.allreduce.1024.4B": _allreduce_model,
    "via.allreduce.1024.4KB": _allreduce_model, "via.allreduce.bounds": _bounds,
    "via.always.bcast": _always_bcast, "via.always.allreduce": _always_allreduce,
}
