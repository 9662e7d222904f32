"""Dedicated collective processors between the nodes of a lab (CDCP-2008): latency and overhead of an allreduce, the MPI
alone, tutti, and tutti with dedicated processors in several ratios; interleaved.

    python bench/dcp_lab.py [--nodes 4] [--np 4,8] [--ratio 1,1:4] [--sizes 8,1024] [--compute 2000] [--latency 100us]
                            [--mpi openmpi] [--rounds 3] [--json FILE]

Needs root, as every lab. All ranks, dedicated processors and the lab's switch share this machine's processors, so computations
give theirs away (--give-way of bench/dcp.c). A ratio of 1 is one dedicated processor on each node, 1:4 one for four ranks."""

from __future__ import annotations

import argparse
import random
import statistics
from pathlib import Path

from rich.console import Console
from tutti.bench import rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.host import mpis
from tutti.report.files import write_json


def launches(mpi: mpis.Mpi, ranks: int, ratios: list[str], lab: texts.LabRequest) -> list[Launch]:
    settings = rounds.settings_for(mpi, ranks, lab)
    return [Launch(mpi, ranks, False, "alone", settings),
            Launch(mpi, ranks, True, "tutti", settings, {"TUTTI_NET": "on"}),
            *(Launch(mpi, ranks, True, f"--dcp {ratio}", settings, {"TUTTI_NET": "on", "TUTTI_DCP": ratio})
              for ratio in ratios)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--np", default="4,8")
    parser.add_argument("--ratio", default="1,1:4")
    parser.add_argument("--sizes", default="8,1024")
    parser.add_argument("--compute", default="2000", help="microseconds between start and wait")
    parser.add_argument("--latency", default="100us")
    parser.add_argument("--mpi", default="openmpi")
    parser.add_argument("--time-ms", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lab = texts.LabRequest.parse(options.nodes, options.latency, "0")
    mpi, sizes, computes = mpis.find(options.mpi), options.sizes.split(","), ["0", *options.compute.split(",")]
    rows = []
    for ranks in (int(word) for word in options.np.split(",")):
        arguments = ["--sizes", options.sizes, "--compute", ",".join(computes), "--time-ms", str(options.time_ms),
                     "--give-way", "1"]
        plan = Plan("dcp.c", arguments, len(sizes) * (len(computes) + 1), options.time_ms * 1e-3, options.rounds,
                    random.SystemRandom().randrange(10**6), lab)
        ways = launches(mpi, ranks, options.ratio.split(","), lab)
        found = rounds.run(plan, ways, Console(stderr=True), dry_run=False)
        for launch, size, compute in ((a, b, c) for b in sizes for c in computes for a in ways):
            lines = [line for line in found[launch] if line["bytes"] == int(size) and line["compute_us"] == float(compute)]
            row = {"bench": "dcp_lab", "nodes": options.nodes, "np": ranks, "mpi": mpi.name, "way": launch.way,
                   "bytes": int(size), "compute_us": float(compute), "latency": options.latency, "rounds": options.rounds,
                   "seed": plan.seed,
                   **{name: statistics.median(line[name] for line in lines)
                      for name in ("start_us", "wait_us", "both_us", "blocking_us")}}
            rows.append(row)
            print(f"{ranks} ranks on {options.nodes} nodes, {size:>5s} B, {launch.way:10s} blocking {row['blocking_us']:8.1f} us; "
                  f"{compute:>5s} us between start and wait: {row['both_us']:8.2f} us in both", flush=True)
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
