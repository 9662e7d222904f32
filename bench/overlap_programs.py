"""Programs that compute while their messages pass, on the nodes of a lab: each MPI alone, with its own progress threads, and
with tutti; interleaved.

    python bench/overlap_programs.py [--only stencil-512K,pipeline-1M] [--nodes 2] [--latency 500us] [--rate 1Gbit]
                                     [--mpi mpich,openmpi,impi] [--rounds 3] [--json FILE]

Needs root, as every lab. examples/stencil exchanges planes, examples/pipeline hands on blocks of that size; both compute for
longer than their messages take at 1 Gbit/s on the machine that they were measured on. They check their results, and say how
long they took and how much of it they waited for messages (means of the ranks). Ranks, what moves their data and the lab's
switch share this machine's processors."""

from __future__ import annotations

import argparse
import random
import statistics
from pathlib import Path

from rich.console import Console
from tutti.bench import rounds, texts
from tutti.bench.overlap import launches_of
from tutti.bench.rounds import Plan
from tutti.host import mpis
from tutti.report.files import write_json

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = {"stencil-512K": ["--edge", "256", "--planes", "96", "--steps", "120"],
            "stencil-2M": ["--edge", "512", "--planes", "64", "--steps", "40"],
            "pipeline-1M": ["--bytes", "1048576", "--blocks", "120", "--passes", "300"],
            "pipeline-8M": ["--bytes", "8388608", "--blocks", "20", "--passes", "240"]}
EXPECTED_S = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--latency", default="500us")
    parser.add_argument("--rate", default="1Gbit")
    parser.add_argument("--mpi", default="mpich,openmpi,impi")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds.check_output(options.json)
    for program in options.only.split(","):
        if program not in PROGRAMS:
            parser.error(f"--only {program}: expected some of {', '.join(PROGRAMS)}")
    lab = texts.LabRequest.parse(options.nodes, options.latency, options.rate)
    launches = [launch for name in options.mpi.split(",")
                for launch in launches_of(mpis.find(name), options.nodes, ["read_interrupt"], lab)]
    rows = []
    for program in options.only.split(","):
        name = program.partition("-")[0]
        plan = Plan(str(EXAMPLES / name / f"{name}.c"), PROGRAMS[program], 1, EXPECTED_S, options.rounds,
                    random.SystemRandom().randrange(10**6), lab)
        for launch, lines in rounds.run(plan, launches, Console(stderr=True), dry_run=False).items():
            row = {"bench": "overlap_programs", "program": program, "nodes": options.nodes, "mpi": launch.mpi.name,
                   "tutti": launch.tutti, "way": launch.way, "rounds": options.rounds, "seed": plan.seed,
                   "latency": options.latency, "rate": options.rate,
                   **{name: statistics.median(line[name] for line in lines) for name in ("seconds", "wait_s")},
                   "seconds_min": min(line["seconds"] for line in lines)}
            rows.append(row)
            print(f"{program:12s} on {options.nodes} nodes, {launch.title():32s} {row['seconds']:6.3f} s (fastest "
                  f"{row['seconds_min']:6.3f}), waiting {row['wait_s']:6.3f} s", flush=True)
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
