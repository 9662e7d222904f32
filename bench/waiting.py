"""What applications spend in MPI_Wait (RNDV-2006, section 5.3): HPL and an ADI solver on the nodes of a lab, over the MPI
alone and over tutti's three protocols for large messages.

    python bench/waiting.py [--app hpl,adi] [--nodes 2] [--latency 500us] [--rate 1Gbit] [--rounds 2] [--json FILE]

Needs root, as every lab, and of Debian hpcc, Open MPI and its Fortran compiler. The rounds are interleaved. The MPI alone is
measured by the same report: with TUTTI_NET=off and TUTTI_P2P=0 every call between nodes is the MPI's own."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tutti import command as command_of_tutti
from tutti.lab import Lab
from tutti.report.files import write_json

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
WAYS = {
    "MPI alone": {"TUTTI_NET": "off", "TUTTI_P2P": "0"},
    **{way: {"TUTTI_NET": "on", "TUTTI_P2P": "1", "TUTTI_RENDEZVOUS": way} for way in ("write", "read", "read_interrupt")},
}


@dataclass
class App:
    """A program, and how to find in its output how long it worked; None where its result is wrong."""

    command: list[str]
    seconds: Callable[[str, Path], float | None]


def needed(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed (apt-get install hpcc openmpi-bin libopenmpi-dev gfortran)")
    return found


def in_turn(ways: list[str], number: int) -> list[str]:
    """Each round begins with another way."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


def hpl(folder: Path, ranks: int, size: int) -> App:
    """HPL inside hpcc, blocks of 80 columns, a grid of as many rows as possible: rows exchange pivots and panels."""
    columns = 2 if ranks >= 4 else 1
    values = {"Ns": size, "NBs": 80, "Ps": ranks // columns, "Qs": columns}
    lines = HPCC_INPUT.read_text().splitlines()
    for number, line in enumerate(lines):
        name = line.split()[-1] if line.split() else ""
        if name in values and "number" not in line:
            lines[number] = f"{values[name]} {name}"
    (folder / "hpccinf.txt").write_text("\n".join(lines) + "\n")

    def seconds(_: str, where: Path) -> float | None:
        said = (where / "hpccoutf.txt").read_text()
        (where / "hpccoutf.txt").unlink()
        line = re.search(r"^W[RC]\S+ +\d+ +\d+ +\d+ +\d+ +([\d.]+)", said, re.MULTILINE)
        return float(line.group(1)) if line and "Success=1" in said and "FAILED" not in said else None

    return App([needed("hpcc")], seconds)


def adi(folder: Path, ranks: int, size: int) -> App:
    """examples/adi: pentadiagonal systems along two directions, faces passed on with non-blocking messages."""
    program = folder / "adi"
    subprocess.run([needed("mpifort.openmpi"), "-O2", "-o", str(program), str(EXAMPLES / "adi" / "adi.f90")], cwd=folder,
                   check=True)

    def seconds(said: str, _: Path) -> float | None:
        line = re.search(r"seconds +([\d.]+)", said)
        return float(line.group(1)) if line and "adi: verified" in said else None

    return App([str(program), str(size // ranks * ranks), "64", "5"], seconds)


APPS = {"hpl": (hpl, 1500), "adi": (adi, 240)}


def run(lab: Lab, ranks: int, app: App, way: str, folder: Path) -> dict[str, float]:
    report = folder / "report.json"
    command = [*command_of_tutti(), "run", "--report-json", str(report), needed("mpirun.openmpi"), "-n", str(ranks),
               *app.command]
    answer = lab.run(command, env={**os.environ, **WAYS[way]}, timeout=280, cwd=folder)
    seconds = app.seconds(answer.stdout, folder) if answer.returncode == 0 else None
    if seconds is None:
        raise SystemExit(f"{way}: status {answer.returncode}\n{answer.stdout[-1500:]}{answer.stderr[-1500:]}")
    waits = [row for row in json.loads(report.read_text())["waits"] if row["call"] == "MPI_Wait"]
    return {"seconds": seconds, "wait_s": sum(row["seconds_all"] for row in waits) / ranks,
            "waits": sum(row["calls"] for row in waits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--app", default=",".join(APPS))
    parser.add_argument("--size", type=int, help="unknowns of HPL, points along each side of ADI")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--latency", default="500us")
    parser.add_argument("--rate", default="1Gbit")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, Lab(options.nodes, latency=options.latency, rate=options.rate) as lab:
        folder = Path(name)
        for which in options.app.split(","):
            make, size = APPS[which]
            app = make(folder, options.nodes, options.size or size)
            found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for number in range(options.rounds):
                for way in in_turn(list(WAYS), number):
                    found[way].append(run(lab, options.nodes, app, way, folder))
            for way, results in found.items():
                row = {"bench": "waiting", "app": which, "nodes": options.nodes, "way": way, "rounds": options.rounds,
                       "latency": options.latency, "rate": options.rate, "size": options.size or size,
                       **{key: statistics.median(result[key] for result in results) for key in results[0]}}
                rows.append(row)
                alone = rows[-1 - list(WAYS).index(way)]["wait_s"]
                print(f"{which} on {options.nodes} nodes, {way:14s} {row['seconds']:7.2f} s, in MPI_Wait (mean of the ranks) "
                      f"{row['wait_s']:6.2f} s, {1 - row['wait_s'] / alone:6.1%} less than the MPI alone; "
                      f"{row['waits']:.0f} calls", flush=True)
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
