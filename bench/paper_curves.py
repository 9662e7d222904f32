"""The curves of one figure of each paper, as they come out here: bench/results/paper-curves.csv, from which
tools/docs/generate.py draws the pictures of docs/results/papers.md.

    python bench/paper_curves.py

In virtual time, or by models: it measures nothing of this machine."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from tutti.paper import allgather, cdcp, model, multicast, rendezvous
from tutti.paper.verdict import benefit
from tutti.sim.run import simulate

OUT = Path(__file__).parent / "results" / "paper-curves.csv"
Point = tuple[str, str, float, float]  # picture, curve, x, y


def via() -> Iterator[Point]:
    """What 4 bytes save, in percent, over nodes."""
    t1 = {"bcast": simulate("bcast", "sendrecv_binomial:packet=1024", "via2003", 2, size=4)["us"],
          "allreduce": simulate("allreduce", "sendrecv_binomial", "via2003", 2, size=4)["us"]}
    for power in range(2, 11):
        nodes = 2 ** power
        baseline = {op: math.log2(nodes) * us for op, us in t1.items()}
        yield "via", "broadcast", nodes, 100 * benefit(model.broadcast("via2003", nodes, 4, 3072), baseline["bcast"])
        for case, name in (("best", "allreduce, one after the other"), ("uncontended", "allreduce, all together")):
            us = model.allreduce("via2003", nodes, 4, 3, case)
            yield "via", name, nodes, 100 * benefit(us, baseline["allreduce"])


def rndv() -> Iterator[Point]:
    """The receiver's W/T at 64 KiB, over W by the time of the message alone."""
    own, other = rendezvous.testbeds().values()
    ways = [("write", "write", own), ("read", "read", own), ("interrupt, own processor", "read_interrupt", own),
            ("interrupt, other processor", "read_interrupt", other)]
    for name, protocol, net in ways:
        for quarter in range(1, 17):
            yield "rndv", name, quarter / 4, rendezvous.overlap(net, protocol, 65536, "receiver", quarter / 4)[1]


def mcast() -> Iterator[Point]:
    """Mean completion of a byte, in sends, over nodes."""
    send = simulate("bcast", "binomial", multicast.NET, 2, size=1)["us"]
    for nodes in multicast.NODES:
        tree = multicast.completions("binomial", nodes, 1)
        yield "mcast", "multicast", nodes, multicast.mean(nodes) / send
        yield "mcast", "tree", nodes, sum(tree) / len(tree) / send


def shared_buffer() -> Iterator[Point]:
    """How many times as fast at 32 x 2, over bytes, by simulation of both algorithms."""
    for cluster, net in allgather.CLUSTERS.items():
        for power in range(10):
            yield "allgather", f"cluster {cluster}", 2 ** power, allgather.simulated(net, 32, 2 ** power)


def dedicated() -> Iterator[Point]:
    """Latency of 8 bytes at 512 processes in us, over dedicated processors."""
    for baseline in cdcp.baselines():
        if baseline.cores_of_many != cdcp.CORES:
            continue  # as the one before it, but for what it is compared with
        for queue in (False, True):
            for count in cdcp.COUNTS:
                name = f"Tr = {baseline.tr_us:.2f} us{', queue' if queue else ''}"
                yield "cdcp", name, count, cdcp.latency(baseline.profile, count, queue)


def main() -> None:
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["picture", "curve", "x", "y"])
        for curve in (via, rndv, mcast, shared_buffer, dedicated):
            writer.writerows([picture, name, f"{x:g}", f"{y:.5g}"] for picture, name, x, y in curve())
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
