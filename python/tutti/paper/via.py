"""The claims of VIA-2003, by simulation and by its models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tutti import native
from tutti.paper import lab, model
from tutti.paper.verdict import (CALIBRATED, MODEL, SIMULATION, Part, Reading, benefit, indistinct, less, near, percent, whole)
from tutti.sim import networks
from tutti.sim.run import simulate

BLOCKS = (1024, 2048, 3072, 4096, 5120)  # data bytes; the paper counts the counter byte: 1025 ... 5121
SIZES = (4, 16, 64, 128, 256, 512, 1024, 2048, 3072, 4096)
NET = "via2003"
FITTED = 0.19  # via.bcast.16.4B, on which Tr is calibrated
SAME_SOURCE = ("model and simulation have the same terms, so this says that they are the same machine, not that either is "
               "the paper's testbed")
# The best case "assumes the ideal network condition" (section 5).
IDEAL = {"best": "ideal network: messages enter a NIC one after the other, in the order of the ranks",
         "uncontended": "ideal network: messages that are sent together arrive together"}


def _us(op: str, alg: str, nodes: int, size: int) -> float:
    return simulate(op, alg, NET, nodes, size=size)["us"]


def degree_of(size: int) -> int:
    """The paper's most optimal degree-k allreduce: 3 up to 1 KB, 1 beyond."""
    return 3 if size <= 1024 else 1


def _bcast_measured(claim: dict[str, Any]) -> list[Part]:
    ours = _us("bcast", "binomial:block=3072", claim["nodes"], claim["bytes"])
    baseline = _us("bcast", "sendrecv_binomial:packet=1024", claim["nodes"], claim["bytes"])
    found = benefit(ours, baseline)
    fitted = claim["role"] == "calibration"
    why = "Tr is fitted to it" if fitted else indistinct(claim["benefit"], FITTED, "the 19 % of 4 B")
    reading = Reading("the paper's machine", CALIBRATED if fitted else SIMULATION,
                      f"{less(found)} ({ours:.2f} us against {baseline:.2f})", near(found, claim["benefit"]))
    return [Part("RDMA against send/receive", less(claim["benefit"]), [reading, *lab.readings(claim)], why)]


def _bcast_model(claim: dict[str, Any]) -> list[Part]:
    nodes, size = claim["nodes"], claim["bytes"]
    baseline = math.log2(nodes) * _us("bcast", "sendrecv_binomial:packet=1024", 2, size)
    times = {block: model.broadcast(NET, nodes, size, block) for block in BLOCKS}
    best = min(times, key=lambda block: times[block])
    found = benefit(times[3072], baseline)
    reading = Reading("blocks of 3073, against log2 N t1", MODEL,
                      f"{less(found)} ({times[3072]:.1f} us against {baseline:.1f})", near(found, claim["benefit"]))
    notes = [indistinct(claim["benefit"], FITTED, "the 19 % of 16 nodes and 4 B")]
    if times[best] < times[3072]:
        notes.append(f"blocks of {best + 1} would give {percent(benefit(times[best], baseline))}")
    return [Part("RDMA against send/receive", less(claim["benefit"]), [reading], "; ".join(filter(None, notes)))]


def _block(claim: dict[str, Any]) -> list[Part]:
    """Read as it is written: no other block is faster at any of the sizes."""
    beaten: dict[int, tuple[float, int]] = {}
    sizes = range(1025, 5001, 53)
    for size in sizes:
        times = {block: _us("bcast", f"binomial:block={block}", claim["nodes"], size) for block in BLOCKS}
        best = min(times, key=lambda block: times[block])
        if times[3072] > times[best]:
            beaten[size] = (times[3072] / times[best] - 1, best)
    paper = f"{claim['best_block']} B at every size"
    if not beaten:
        return [Part("best block", paper, [Reading(f"{len(sizes)} sizes", CALIBRATED, "the same", True)], "Ta is fitted to it")]
    size = max(beaten, key=lambda s: beaten[s][0])
    loss, rival = beaten[size]
    reading = Reading(f"{len(sizes)} sizes", CALIBRATED,
                      f"3073 at {len(sizes) - len(beaten)} of them; beaten from {min(beaten)} to {max(beaten)} B", False)
    return [Part("best block", paper, [reading], (
        f"at {size} B blocks of {rival + 1} are {percent(loss)} faster: there the second block is so short that it arrives "
        "before the first has been copied out, so that it costs its start-up and hides nothing. Tested: no Ta from 2.1 to "
        "2.75 us (where 3073 wins at most sizes) repairs it; it is beaten at 11 to 19 sizes then"))]


def _model_error(claim: dict[str, Any]) -> list[Part]:
    errors = {size: abs(model.broadcast(NET, 16, size, 3072) / _us("bcast", "binomial:block=3072", 16, size) - 1)
              for size in SIZES}
    size = max(errors, key=lambda s: errors[s])
    reading = Reading("model against simulation", MODEL, f"{errors[size]:.2%} at {size} B", errors[size] <= claim["max_error"])
    return [Part("largest error", f"below {whole(claim['max_error'])}", [reading], SAME_SOURCE)]


def _allreduce_measured(claim: dict[str, Any]) -> list[Part]:
    nodes, size = claim["nodes"], claim["bytes"]
    ours = _us("allreduce", f"degree_k:degree={degree_of(size)}", nodes, size)
    baseline = _us("allreduce", "sendrecv_binomial", nodes, size)
    found = benefit(ours, baseline)
    holds = near(found, claim["benefit"])
    reading = Reading(f"degree {degree_of(size)}", SIMULATION, f"{less(found)} ({ours:.2f} us against {baseline:.2f})", holds)
    return [Part("RDMA against send/receive", less(claim["benefit"]), [reading, *lab.readings(claim)],
                 "" if holds else _library_overhead(ours, baseline, nodes))]


def _library_overhead(ours: float, baseline: float, nodes: int) -> str:
    """What is most likely missing: Tm is charged here for every put, as the broadcast's equation has it."""
    once = ours - math.ceil(math.log2(nodes)) * native.core().network_terms(networks.path_of(NET))["Tm"]
    return (f"Tested: were the library's Tm not paid again for the broadcast half, it would be "
            f"{less(benefit(once, baseline))}, but the published broadcast has it in every stage")


def _allreduce_model(claim: dict[str, Any]) -> list[Part]:
    nodes, size = claim["nodes"], claim["bytes"]
    degree = degree_of(size)
    baseline = math.log2(nodes) * _us("allreduce", "sendrecv_binomial", 2, size)
    times = {case: model.allreduce(NET, nodes, size, degree, case) for case in ("best", "uncontended", "worst")}

    def part(what: str, wanted: float, cases: dict[str, str]) -> Part:
        found = {case: benefit(times[case], baseline) for case in cases}
        readings = [Reading(cases[case], MODEL, f"{less(gain)} ({times[case]:.1f} us against {baseline:.1f})",
                            near(gain, wanted)) for case, gain in found.items()]
        missed = [case for case in cases if not near(found[case], wanted)]
        return Part(what, less(wanted), readings, _library_overhead(times[missed[0]], baseline, nodes) if missed else "")

    best = claim.get("benefit_best")
    parts = [part(f"degree {degree}, best case", best, IDEAL)]
    if "benefit_worst" in claim:
        parts.append(part(f"degree {degree}, worst case", claim["benefit_worst"], {"worst": "the first is folded last"}))
    return parts


def _degree(claim: dict[str, Any]) -> list[Part]:
    """Every size up to 1024 B and from 2048 B on; "very small" is read as up to 64 B."""
    small = [size for size in SIZES if size <= 1024]
    large = [size for size in (*SIZES, 4608) if size >= 2048]
    points = {"4 nodes, <=1024 B": [(4, size) for size in small],
              "8 nodes, very small": [(8, size) for size in small if size <= 64],
              "16 nodes, 4-1024 B": [(16, size) for size in small],
              ">=2048 B": [(nodes, size) for nodes in (4, 8, 16) for size in large]}
    parts = []
    for where, degree in claim["best_degree"].items():
        wrong = []
        for nodes, size in points[where]:
            times = {k: _us("allreduce", f"degree_k:degree={k}", nodes, size) for k in (1, 3, 7, 15) if k < nodes}
            best = min(times, key=lambda k: times[k])
            if best != degree:
                wrong.append(f"{nodes} nodes, {size} B: {best}, {percent(times[degree] / times[best] - 1)} before {degree}")
        ours = f"at all {len(points[where])} points" if not wrong else "; ".join(wrong)
        parts.append(Part(where, f"degree {degree}", [Reading("every point", SIMULATION, ours, not wrong)]))
    return parts


def _bounds(claim: dict[str, Any]) -> list[Part]:
    """Both halves of the claim: between the two cases, and the published largest distance from them (of degree 15 at
    512 B), read as the distance from the nearer of the two."""
    outside, worst = [], (0.0, 0, 0)
    for degree in (1, 3, 7, 15):
        for size in (*SIZES, 4608):
            time = _us("allreduce", f"degree_k:degree={degree}", 16, size)
            low, high = (model.allreduce(NET, 16, size, degree, case) for case in ("best", "worst"))
            if not low - 1e-6 <= time <= high + 1e-6:
                outside.append(f"degree {degree}, {size} B: {time:.2f} not in {low:.2f} to {high:.2f}")
            distance = min(abs(time / low - 1), abs(time / high - 1))
            worst = max(worst, (distance, degree, size))
    return [Part("between best and worst case", "always", [Reading("every point", SIMULATION, "always" if not outside
                                                                  else "; ".join(outside), not outside)], SAME_SOURCE),
            Part("largest distance from the nearer case", f"at most {whole(claim['max_error'])}",
                 [Reading("every point", SIMULATION, f"{worst[0]:.2%} (degree {worst[1]}, {worst[2]} B)",
                          worst[0] <= claim["max_error"])], SAME_SOURCE)]


def _always_bcast(claim: dict[str, Any]) -> list[Part]:
    lost, least = [], 1.0
    for size in (*SIZES, 4608, 5000):
        baseline = _us("bcast", "sendrecv_binomial", 16, size)
        for block in BLOCKS:
            gain = benefit(_us("bcast", f"binomial:block={block}", 16, size), baseline)
            least = min(least, gain)
            if gain <= 0:
                lost.append(f"{size} B in blocks of {block + 1}: {less(gain)}")
    return [Part("RDMA against send/receive, 4 to 5000 B", "always less", [
        Reading("every size and block", SIMULATION, f"always, {percent(least)} at least" if not lost else "; ".join(lost),
                not lost), *lab.readings(claim)])]


def _always_allreduce(claim: dict[str, Any]) -> list[Part]:
    gains = {size: benefit(_us("allreduce", "degree_k:degree=1", 16, size), _us("allreduce", "sendrecv_binomial", 16, size))
             for size in (*SIZES, 4608, 5000)}
    size = min(gains, key=lambda s: gains[s])
    return [Part("degree 1 against send/receive, 4 to 5000 B", "always less", [
        Reading("every size", SIMULATION, f"{less(gains[size])} at least ({size} B)", gains[size] > 0), *lab.readings(claim)])]


EVALUATIONS: dict[str, Callable[[dict[str, Any]], list[Part]]] = {
    "via.bcast.16.4B": _bcast_measured, "via.bcast.16.4608B": _bcast_measured, "via.bcast.block": _block,
    "via.bcast.512.4B": _bcast_model, "via.bcast.512.4KB": _bcast_model,
    "via.bcast.1024.4B": _bcast_model, "via.bcast.1024.4KB": _bcast_model, "via.model.error": _model_error,
    "via.allreduce.16.4B": _allreduce_measured, "via.allreduce.16.4KB": _allreduce_measured,
    "via.allreduce.degree": _degree, "via.allreduce.512.4B": _allreduce_model,
    "via.allreduce.512.4KB": _allreduce_model, "via.allreduce.1024.4B": _allreduce_model,
    "via.allreduce.1024.4KB": _allreduce_model, "via.allreduce.bounds": _bounds,
    "via.always.bcast": _always_bcast, "via.always.allreduce": _always_allreduce,
}
