"""What an application gains (ALLGATHER-2006): matrices multiplied by an allgather, on the nodes of a lab with several
processes each, over the MPI alone and over tutti's algorithms, with the copies overlapped with the network and without.

    python bench/matmul.py [--nodes 8] [--per-node 1,2,4] [--size 256] [--latency 500us] [--rate 1Gbit] [--rounds 3]
                           [--json FILE]

Needs root, as every lab, and Debian's Open MPI. The rounds are interleaved. Seconds are of one multiplication, of the
slowest rank."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from tutti import command as command_of_tutti
from tutti.lab import Lab
from tutti.report.files import write_json
from waiting import in_turn, needed

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "matmul" / "matmul.c"
WAYS = {
    "MPI alone": None,
    "tutti": "",
    "exchange": "allgather=exchange",
    "shared buffer": "allgather=shared_buffer",
    "without overlap": "allgather=shared_buffer:overlap=0",
}


def run(lab: Lab, ranks: int, program: Path, size: int, way: str) -> tuple[float, float]:
    """Seconds of a multiplication and of its allgather."""
    algorithm = WAYS[way]
    # With many nodes in one machine waiting ranks must give way: Open MPI's best setting, in all ways.
    command = [needed("mpirun.openmpi"), "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks), str(program), str(size), "10"]
    variables = dict(os.environ)
    if algorithm is not None:
        command = [*command_of_tutti(), "run", *command]
        variables |= {"TUTTI_NET": "on", "TUTTI_ALG": algorithm}
    answer = lab.run(command, env=variables, timeout=120)
    found = re.search(r"seconds ([\d.]+), in MPI_Allgather ([\d.]+)", answer.stdout)
    if answer.returncode != 0 or found is None or "matmul: verified" not in answer.stdout:
        raise SystemExit(f"{way}: status {answer.returncode}\n{answer.stdout[-1500:]}{answer.stderr[-1500:]}")
    return float(found[1]), float(found[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--per-node", default="1,2,4", help="processes on each node")
    parser.add_argument("--size", type=int, default=256, help="rows and columns")
    parser.add_argument("--latency", default="500us")
    parser.add_argument("--rate", default="1Gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, Lab(options.nodes, latency=options.latency, rate=options.rate) as lab:
        program = Path(name) / "matmul"
        subprocess.run([needed("mpicc.openmpi"), "-O3", "-o", str(program), str(SOURCE), "-lm"], check=True)
        for each in map(int, options.per_node.split(",")):
            found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for number in range(options.rounds):
                for way in in_turn(list(WAYS), number):
                    found[way].append(run(lab, options.nodes * each, program, options.size, way))
            alone = statistics.median(seconds for seconds, _ in found["MPI alone"])
            for way, results in found.items():
                seconds, gather = (statistics.median(values) for values in zip(*results, strict=True))
                rows.append({"bench": "matmul", "nodes": options.nodes, "np": options.nodes * each, "size": options.size,
                             "way": way, "seconds": seconds, "allgather_s": gather, "rounds": options.rounds,
                             "latency": options.latency, "rate": options.rate})
                print(f"{options.nodes} x {each}, N {options.size}, {way:15s} {seconds * 1e3:8.2f} ms, of it the allgather "
                      f"{gather * 1e3:8.2f}; {alone / seconds:5.2f} times as fast as the MPI alone", flush=True)
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
