"""The claims about multicast: of names that collide, and of a broadcast that takes as long for any number of nodes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tutti.paper import lab
from tutti.paper.verdict import ARITHMETIC, SIMULATION, Part, Reading, percent, whole
from tutti.sim.run import Surroundings, simulate

NET = "odin2007"
NODES = (4, 16, 64, 128, 1000, 10000)
SEEDS = 8  # losses differ by seed
SENDS, GROWTH = 2.5, 1.3  # "about two sends" is read as at most so many, "independent" as at most so many times 4 nodes
FLAT = 0.1  # of the mean


@dataclass(frozen=True)
class Names:
    """How many names a group of tutti may get on a medium (name_group in src/fabric/groups/groups.cpp)."""
    addresses: int
    keys: int  # queue keys, or ports of IP


MEDIA = {"InfiniBand": Names(2 ** 112, 2 ** 31), "RoCE": Names(2 ** 18, 2 ** 31), "IPv6": Names(2 ** 112, 12000),
         "IPv4": Names(2 ** 18, 12000)}


def collision(groups: int, names: int) -> float:
    """The probability that any two of the groups have the same of so many names, all of them equally likely."""
    if groups > names:
        return 1.0
    return -math.expm1(math.fsum(math.log1p(-drawn / names) for drawn in range(groups)))


def _collision(claim: dict[str, Any]) -> list[Part]:
    """The paper's names, and the whole names of tutti's groups, address and port or queue key, on every medium."""
    groups, most = claim["groups"], claim["probability"]
    paper = f"at most {most:.0e}"

    def reading(what: str, probability: float) -> Reading:
        return Reading(what, ARITHMETIC, f"{probability:.1e}", probability <= most)

    parts = [Part(f"{groups} groups of {claim['bits']} random bits", paper,
                  [reading("counting", collision(groups, 2 ** claim["bits"]))])]
    for medium, names in MEDIA.items():
        one = reading("the whole name", collision(groups, names.addresses * names.keys))
        why = "" if one.holds else (
            f"the medium gives an address no more than {math.log2(names.addresses):.0f} bits: {groups} groups share one with "
            f"probability {whole(collision(groups, names.addresses))}. docs/concepts/multicast.md has what that costs")
        parts.append(Part(f"tutti's groups on {medium}", paper, [one], why))
    return parts


def completions(alg: str, nodes: int, seed: int) -> list[float]:
    """When each rank but the root has a byte, in microseconds."""
    around = Surroundings(seed=seed)
    return simulate("bcast", alg, NET, nodes, size=1, per_rank=True, around=around)["per_rank_us"][1:]


def mean(nodes: int) -> float:
    """Of all members and seeds."""
    return statistics.mean(time for seed in range(1, SEEDS + 1) for time in completions("multicast", nodes, seed))


def _constant(claim: dict[str, Any]) -> list[Part]:
    send = simulate("bcast", "binomial", NET, 2, size=1)["us"]
    means = {nodes: mean(nodes) for nodes in NODES}
    worst, few = max(means.values()), means[NODES[0]]
    listed = ", ".join(f"{nodes}: {means[nodes]:.2f}" for nodes in NODES)
    return [Part("about two sends", "2 t_send", [
                Reading(f"up to {NODES[-1]} nodes", SIMULATION, f"{worst / send:.2f} t_send at most (t_send {send:.2f} us)",
                        worst <= SENDS * send), *lab.readings(claim, "two sends")]),
            Part("independent of N", "constant", [
                Reading(f"{NODES[0]} to {NODES[-1]} nodes", SIMULATION, f"{worst / few:.2f} times that of {NODES[0]} "
                        f"(us by nodes: {listed})", worst <= GROWTH * few), *lab.readings(claim, "independent")])]


def spread(alg: str) -> float:
    """From the first to the last of the middle 98 % of 128 ranks (some lose the datagram), by their mean."""
    times = sorted(completions(alg, 128, 1))
    cut = len(times) // 100
    return (times[-1 - cut] - times[cut]) / statistics.mean(times)


def _skew(claim: dict[str, Any]) -> list[Part]:
    flat, tree = spread("multicast"), spread("binomial")
    under = "128 nodes, the middle 98 % of the ranks"
    return [Part("flat by rank", f"at most {whole(FLAT)} of the mean", [
                Reading(under, SIMULATION, percent(flat), flat <= FLAT), *lab.readings(claim, "flat")]),
            Part("a tree's is not", "more", [Reading(under, SIMULATION, percent(tree), tree > FLAT),
                                             *lab.readings(claim, "tree")])]


EVALUATIONS: dict[str, Callable[[dict[str, Any]], list[Part]]] = {
    "mcast.collision": _collision, "mcast.constant": _constant, "mcast.skew": _skew,
}
