"""Claims of the papers that compare two algorithms, between the nodes of labs: the paper's algorithm, its baseline over
send/receive (with the copies and the matching of a two-sided packet), both served by tutti, interleaved; beside what the
simulation says on the paper's machine and what the paper says.

    python bench/claims.py [--only via,allgather] [--latency 0,500us] [--rate 0] [--rounds 3] [--mpi mpich] [--json FILE]

Needs root, as every lab. All nodes share this machine's processors, so with a latency of 0 it is the work of all of them that is
compared, and with 500 us mostly the number of steps: neither is the papers' network, in which both matter."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from tutti import sim
from tutti.bench import coll, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.host import mpis
from tutti.report.files import write_json


@dataclass(frozen=True)
class Claim:
    name: str
    op: str
    size: int
    ours: str
    baseline: str
    ranks: int
    nodes: int
    net: str
    said: str  # by the paper


# VIA-2003's blocks of 3073 bytes hold a byte of bookkeeping; ALLGATHER-2006 states the best over its message sizes.
CLAIMS = [
    Claim("via.bcast.16.4B", "bcast", 4, "binomial:block=3072", "sendrecv_binomial", 16, 16, "via2003", "19 % less"),
    Claim("via.bcast.16.4608B", "bcast", 4608, "binomial:block=3072", "sendrecv_binomial:packet=1024", 16, 16, "via2003",
          "14 % less"),
    Claim("via.allreduce.16.4B", "allreduce", 4, "degree_k:degree=3", "sendrecv_binomial", 16, 16, "via2003", "38 % less"),
    Claim("via.allreduce.16.4KB", "allreduce", 4096, "degree_k:degree=1", "sendrecv_binomial", 16, 16, "via2003",
          "9 % less"),
    *(Claim(f"allgather, {nodes} x 2", "allgather", size, "shared_buffer", "sendrecv_recursive_doubling:packet=5120", 2 * nodes,
            nodes, "ib2006", f"{factor} times as fast at best")
      for nodes, factor in ((16, 1.97), (32, 1.82)) for size in (256, 512)),
    *(Claim("allgather overlap, 16 x 2", "allgather", size, "shared_buffer", "shared_buffer:overlap=0", 32, 16, "ib2006",
            "30 and 43 % faster at best, 32 x 2") for size in (1024, 16384)),
]


def measure(claim: Claim, mpi: str, lab: texts.LabRequest, number: int) -> list[float]:
    """Microseconds of ours and of the baseline."""
    time_ms = max(2 * coll.TIME_MS, lab.latency_ns * 1e-6 * coll.TIME_LATENCIES)
    arguments = ["--ops", claim.op, "--sizes", str(claim.size), "--time-ms", str(time_ms), "--sync", "barrier"]
    plan = Plan("coll.c", arguments, 1, time_ms * 1e-3, number, 1, lab)
    found = mpis.find(mpi)
    launches = []
    for algorithm in (claim.ours, claim.baseline):
        text = f"{claim.op}={algorithm}"
        launches.append(Launch(found, claim.ranks, True, text, rounds.settings_for(found, claim.ranks, lab),
                               {"TUTTI_NET": "on", "TUTTI_ALG": text}))
    results = rounds.run(plan, launches, Console(stderr=True), dry_run=False)
    return [statistics.median(statistics.median(line["us"]) for line in results[launch]) for launch in launches]


def simulated(claim: Claim) -> float:
    """Ours / baseline on the paper's machine."""
    us = [sim.simulate(claim.op, algorithm, claim.net, claim.nodes, ppn=claim.ranks // claim.nodes, size=claim.size)["us"]
          for algorithm in (claim.ours, claim.baseline)]
    return us[0] / us[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="via,allgather")
    parser.add_argument("--latency", default="0,500us")
    parser.add_argument("--rate", default="0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpi", default="mpich")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for claim in CLAIMS:
        if not claim.name.startswith(tuple(options.only.split(","))):
            continue
        for latency in options.latency.split(","):
            lab = texts.LabRequest.parse(claim.nodes, latency, options.rate)
            assert lab is not None
            ours, baseline = measure(claim, options.mpi, lab, options.rounds)
            rows.append({"bench": "claims", "claim": claim.name, "op": claim.op, "bytes": claim.size, "np": claim.ranks,
                         "nodes": claim.nodes, "latency": latency, "rate": options.rate, "rounds": options.rounds, "us": ours,
                         "baseline_us": baseline, "ratio": ours / baseline, "simulated_ratio": simulated(claim)})
            print(f"{claim.name:26s} {claim.size:6d} B, latency {latency:6s} {claim.ours:20s} {ours:9.1f} us, "
                  f"{claim.baseline:30s} {baseline:9.1f}: {1 - ours / baseline:+.0%} less; "
                  f"simulated {1 - rows[-1]['simulated_ratio']:+.0%}; paper: {claim.said}", flush=True)
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
