"""The claims about multicast: of names that collide, and of a broadcast that takes as long for any number of nodes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tutti.paper.outcome import Outcome
from tutti.sim.run import Surroundings, simulate

MULTICAST_NODES = (4, 16, 64, 128, 1000, 10000)
MULTICAST_SEEDS = 8  # losses differ by seed


@dataclass(frozen=True)
class Names:
    """How many names a group of tutti may get on a medium (name_group in src/fabric/groups/groups.cpp)."""
    addresses: int
    keys: int  # queue keys, or ports of IP


MEDIA = {"InfiniBand": Names(2 ** 112, 2 ** 31), "RoCE": Names(2 ** 18, 2 ** 31), "IP": Names(2 ** 18, 12000)}


def collision(groups: int, names: int) -> float:
    """The probability that any two of the groups have the same of so many names, all of them equally likely."""
    if groups > names:
        return 1.0
    return -math.expm1(math.fsum(math.log1p(-drawn / names) for drawn in range(groups)))


def _collision(claim: dict[str, Any]) -> Outcome:
    """What is judged is the whole name: address, and port or queue key. On every medium, as a job may run on any."""
    groups, most = claim["groups"], claim["probability"]
    found = {"paper": collision(groups, 2 ** claim["bits"])}
    found |= {medium: collision(groups, names.addresses * names.keys) for medium, names in MEDIA.items()}
    shared = ", ".join(f"{medium} {collision(groups, names.addresses):.1e}" for medium, names in MEDIA.items())
    above = [name for name, probability in found.items() if probability > most]
    return Outcome(", ".join(f"{name} {probability:.1e}" for name, probability in found.items()), not above,
                   (f"more often than {most:.0e}: {', '.join(above)}; " if above else "")
                   + f"{groups} names as random as the medium lets them be; the address alone is shared with {shared}; "
                   "docs/concepts/multicast.md has what that costs")


def _completions(alg: str, nodes: int, seed: int) -> list[float]:
    """When each rank but the root has a byte, in microseconds."""
    around = Surroundings(seed=seed)
    return simulate("bcast", alg, "odin2007", nodes, size=1, per_rank=True, around=around)["per_rank_us"][1:]


def _multicast_constant(_: dict[str, Any]) -> Outcome:
    """Constant is read as at most 1.3 times the mean at 4 nodes, about two sends as at most 2.5."""
    send = simulate("bcast", "binomial", "odin2007", 2, size=1)["us"]
    means = {nodes: statistics.mean(time for seed in range(1, MULTICAST_SEEDS + 1)
                                    for time in _completions("multicast", nodes, seed)) for nodes in MULTICAST_NODES}
    worst, few = max(means.values()), means[MULTICAST_NODES[0]]
    listed = ", ".join(f"{nodes}: {means[nodes]:.2f}" for nodes in MULTICAST_NODES)
    return Outcome(f"at most {worst / send:.2f} t_send, {worst / few:.2f} times that at 4 nodes",
                   worst <= 1.3 * few and worst <= 2.5 * send,
                   f"simulated with the published packet error rate, t_send {send:.2f} us, mean by nodes {listed} us; "
                   "docs/results/multicast.md has the lab")


def _multicast_skew(_: dict[str, Any]) -> Outcome:
    """Flat: the middle 98 % of the ranks (some lose the datagram) within a tenth of their mean; a tree's are not."""
    spreads = {}
    for alg in ("multicast", "binomial"):
        times = sorted(_completions(alg, 128, 1))
        cut = len(times) // 100
        spreads[alg] = (times[-1 - cut] - times[cut]) / statistics.mean(times)
    return Outcome(f"spread {spreads['multicast']:.0%} of the mean, tree {spreads['binomial']:.0%}",
                   spreads["multicast"] <= 0.1 < spreads["binomial"],
                   "simulated, 128 nodes, first to last of the middle 98 % of the ranks; docs/results/multicast.md has the lab")


EVALUATIONS: dict[str, Callable[[dict[str, Any]], Outcome]] = {
    "mcast.collision": _collision, "mcast.constant": _multicast_constant, "mcast.skew": _multicast_skew,
}
