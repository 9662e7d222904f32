"""Prediction against measurement: collectives in labs of several sizes, beside the simulation on a profile that `tutti tune
--lab 2` has measured with two nodes of a lab with the same network.

    tutti tune lab.toml --lab 2 --latency 500us --rate 1Gbit
    python bench/predict.py lab.toml [--nodes 2,4,8] [--latency 500us] [--rate 1Gbit] [--sizes 4,1K,16K,64K] [--json FILE]

Needs root, as every lab. What is compared leaves no rank ahead of the others, so that calls in a row show their latency."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from rich.console import Console
from tutti import sim
from tutti.bench import coll, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.errors import UserError
from tutti.host import mpis
from tutti.report.files import write_json

FORCED = ({"barrier": "dissemination", "allreduce": "recursive_doubling", "allgather": "exchange"},
          {"allreduce": "degree_k:degree=1", "allgather": "shared_buffer"})
REPEAT = 8  # simulated calls in a row


def measure(lab: texts.LabRequest, mpi: str, forced: dict[str, str], sizes: list[int],
            number: int) -> dict[tuple[str, int], float]:
    """Microseconds by (operation, bytes)."""
    time_ms = max(5 * coll.TIME_MS, lab.latency_ns * 1e-6 * coll.TIME_LATENCIES)
    plan = Plan("coll.c", ["--ops", ",".join(forced), "--sizes", ",".join(map(str, sizes)), "--time-ms", str(time_ms)],
                len(forced) * len(sizes), time_ms * 1e-3, number, 1, lab)
    found = mpis.find(mpi)
    text = ",".join(f"{op}={alg}" for op, alg in forced.items())
    launch = Launch(found, lab.nodes, True, text, rounds.settings_for(found, lab.nodes, lab),
                    {"TUTTI_NET": "on", "TUTTI_ALG": text})
    return rounds.medians(plan, launch, Console(stderr=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile", type=Path)
    parser.add_argument("--nodes", default="2,4,8")
    parser.add_argument("--latency", default="500us")
    parser.add_argument("--rate", default="1Gbit")
    parser.add_argument("--sizes", default="4,1K,16K,64K")
    parser.add_argument("--mpi", default="mpich")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for nodes in map(int, options.nodes.split(",")):
        lab = texts.LabRequest.parse(nodes, options.latency, options.rate)
        assert lab is not None
        for forced in FORCED:
            for (op, size), us in measure(lab, options.mpi, forced, texts.sizes(options.sizes), options.rounds).items():
                try:
                    predicted = sim.simulate(op, forced[op], str(options.profile), nodes, size=size, repeat=REPEAT)["us"]
                except UserError as error:  # so the measurement was another algorithm's
                    print(f"{nodes:3d} nodes {op:10s} {forced[op]:18s} {size:8d} B  not compared: {error}", flush=True)
                    continue
                rows.append({"bench": "predict", "op": op, "alg": forced[op], "bytes": size, "nodes": nodes, "us": us,
                             "predicted_us": predicted, "error": predicted / us - 1, "latency": options.latency,
                             "rate": options.rate})
                print(f"{nodes:3d} nodes {op:10s} {forced[op]:18s} {size:8d} B  measured {us:9.1f} us, predicted "
                      f"{predicted:9.1f} ({predicted / us - 1:+.1%})", flush=True)
    errors = sorted(abs(row["error"]) for row in rows)
    print(f"{sum(error <= 0.1 for error in errors)} of {len(errors)} within 10 %; median {statistics.median(errors):.1%}, "
          f"largest {errors[-1]:.1%}")
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
