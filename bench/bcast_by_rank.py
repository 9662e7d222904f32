"""Completion of a broadcast by rank, in labs of several sizes: multicast, the tree, and the MPIs alone.

    python bench/bcast_by_rank.py [--nodes 4,8,16] [--latency 2ms] [--loss 0] [--bytes 1] [--calls 20] [--json FILE]
        [--plot FILE.svg]

Needs root, as every lab. The one-way time is measured in each lab too, as a broadcast from one node to one other."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from tutti import command as command_of_tutti
from tutti.bench import peers, program
from tutti.host import mpis
from tutti.lab import Lab, values
from tutti.report.files import write_json

VARIANTS = {
    "multicast": {"TUTTI_ALG": "bcast=multicast"},
    "chords": {"TUTTI_ALG": "bcast=multicast:chords=32"},
    "windows": {"TUTTI_ALG": "bcast=multicast_window"},
    "direct": {"TUTTI_ALG": "bcast=direct"},
    "parts": {"TUTTI_ALG": "bcast=scatter_allgather"},
    "tree": {"TUTTI_ALG": "bcast=binomial"},
    "peer": None,
}


def measure(lab: Lab, mpi: mpis.Mpi, variant: str, ranks: int, arguments: list[object]) -> dict[str, object]:
    settings = peers.lab_settings(mpi)
    binary = program.compile_for(mpi, Path(__file__).with_name("bcast_by_rank.c"))
    command = peers.command_line(mpi, ranks, settings, [str(binary), *map(str, arguments)])
    environment = peers.environment(mpi, settings)
    extra = VARIANTS[variant]
    if extra is not None:
        command = [*command_of_tutti(), "run", *command]
        environment |= {"TUTTI_NET": "on", "TUTTI_MULTICAST": "auto", **extra}
    lab.reset_counters()
    answer = lab.run(command, env=environment, timeout=120)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("{")]
    if answer.returncode != 0 or not lines:
        raise SystemExit(f"{variant} over {mpi.name}, {ranks} ranks: status {answer.returncode}\n"
                         f"{answer.stdout[-1500:]}{answer.stderr[-1500:]}")
    row = json.loads(lines[0])
    others = row["by_rank_us"][1:]
    # What passed each node's cable, start and barriers included, in messages.
    ports = {port["node"]: port for port in lab.switch_counters()["ports"]}
    passed = {f"{way}_{who}": max(ports[node][way] for node in nodes) / (row["bytes"] * row["calls"])
              for way in ("sent", "received") for who, nodes in (("root", ["n0"]), ("others", lab.nodes[1:]))}
    return passed | {"bench": "bcast_by_rank", "mpi": mpi.name, "alg": variant, "nodes": len(lab.nodes), **row,
            "mean_us": statistics.mean(others), "first_us": others[0], "last_us": others[-1], "most_us": max(others)}


def draw(rows: list[dict[str, object]], path: Path) -> None:
    """The completion of each rank, for the largest number of nodes: flat where all get it at once, in steps for a tree."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    largest = max(row["nodes"] for row in rows)
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for row in rows:
        if row["nodes"] == largest:
            label = row["mpi"] if row["alg"] == "peer" else f"tutti, {row['alg']}"
            axes.plot(range(1, largest), [us / 1000 for us in row["by_rank_us"][1:]], marker=".", linewidth=0.8, label=label)
    axes.set(xlabel="rank", ylabel="completion, ms after the root's call", ylim=(0, None),
             title=f"broadcast of {rows[0]['bytes']} B, {largest} nodes, latency {rows[0]['latency']}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", default="4,8,16")
    parser.add_argument("--latency", default="2ms")
    parser.add_argument("--rate", default="1Gbit")
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--bytes", type=int, default=1)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--mpi", default="mpich,openmpi")
    parser.add_argument("--alg", default="multicast,tree,peer", help="of " + ", ".join(VARIANTS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the completion by rank")
    options = parser.parse_args()
    pause_us = max(10_000.0, 10 * values.nanoseconds(options.latency, "--latency") / 1000)
    rows = []
    for nodes in map(int, options.nodes.split(",")):
        with Lab(nodes, latency=options.latency, rate=options.rate, loss=options.loss, seed=1) as lab:
            for mpi in map(mpis.find, options.mpi.split(",")):
                for variant in options.alg.split(","):
                    if variant != "peer" and mpi.name != "mpich":
                        continue  # what tutti does is the same over each
                    row = measure(lab, mpi, variant, nodes, [options.bytes, options.calls, pause_us])
                    row |= {"latency": options.latency, "loss": options.loss}
                    rows.append(row)
                    print(f"{nodes:3d} nodes {mpi.name:8s} {variant:10s} mean {row['mean_us']:9.0f} us, rank 1 "
                          f"{row['first_us']:9.0f}, rank N-1 {row['last_us']:9.0f}, latest {row['most_us']:9.0f}, "
                          f"{row['errors']} errors" + (
                              "" if options.bytes < 100_000 else
                              f"; messages sent by the root {row['sent_root']:.2f}, by others at most "
                              f"{row['sent_others']:.2f}, received at most {row['received_others']:.2f}"), flush=True)
    if options.json is not None:
        write_json(options.json, rows)
    if options.plot is not None:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
