"""Whole programs with dedicated collective processors (CDCP-2008, section V-F): the barotropic solver on the paper's grid,
conjugate gradients and a gradient descent, blocking and overlapped; the MPI alone, with its own progress thread, tutti, and
tutti with dedicated processors, beside the job and from it; interleaved.

    python bench/dcp_programs.py [--nodes 4] [--np 8] [--latency 100us] [--ratio 1,1:4] [--mpi openmpi,mpich] [--only cg]
                                 [--rounds 3] [--json FILE]

--nodes 1 is this machine, more are those of a lab, which needs root. The programs in C run over each --mpi (MPICH has a progress
thread of its own), the solver in Fortran over the first MPI in PATH that has a compiler for it. Times are the programs' own, of
the slowest rank; every program checks its result.

Sizes, where nothing else is said: the solver has the paper's 320 x 384 points, conjugate gradients as many (350 x 350), and the
descent 3,200 samples for each of --np ranks, about 200 us of computation around each sum. All that a program does in a step is
divided among the ranks that it has, which are fewer where helpers are taken from the job."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tutti import command as command_of_tutti
from tutti.bench import overlap, peers, program, start, texts
from tutti.host import machine, mpis
from tutti.report.files import write_json

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES / "barotropic"))
from demo import find_fortran  # noqa: E402

LIMIT_S = 120
FROM_JOB = "--dcp-from-job"


@dataclass(frozen=True)
class Job:
    """A program in one of its forms, of a size. `unit_us`: what one of the numbers that `pattern` finds is."""

    name: str
    form: str
    size: str
    mpi: mpis.Mpi
    words: Callable[[int], list[str]]  # by the number of its ranks
    pattern: str
    right: str
    unit_us: float


def cg(name: str, side: int, solves: int) -> list[Job]:
    mpi = mpis.find(name)
    binary = program.compile_for(mpi, EXAMPLES / "cg" / "cg.c")
    return [Job("cg", form, f"{side} x {side}", mpi,
                lambda _, form=form: [str(binary), "--side", str(side), "--form", form, "--solves", str(solves)],
                r"([\d.]+) s a solve", ": right", 1e6) for form in ("blocking", "pipelined")]


def sgd(name: str, batches: list[str], ranks: int, steps: int) -> list[Job]:
    """`batches`: samples of a rank in a step, where there are so many ranks."""
    mpi = mpis.find(name)
    binary = program.compile_for(mpi, EXAMPLES / "sgd" / "sgd.c")

    def words(batch: str, form: str) -> Callable[[int], list[str]]:
        return lambda left: [str(binary), "--batch", str(int(batch) * ranks // left), "--form", form, "--steps", str(steps)]

    return [Job("sgd", form, f"batch {batch}", mpi, words(batch, form),
                r"([\d.]+) us a step", ": right", 1.0) for batch in batches for form in ("blocking", "delayed")]


def barotropic(folder: Path, iterations: int) -> list[Job]:
    found = find_fortran()
    if found is None:
        print("skipped: the barotropic solver needs an MPI's Fortran compiler")
        return []
    compiler, mpi = found
    binary = folder / "barotropic"
    subprocess.run([str(compiler), "-O2", "-o", str(binary), str(EXAMPLES / "barotropic" / "barotropic.F90")], cwd=folder,
                   check=True)
    return [Job("barotropic", form, "320 x 384", mpi, lambda _, form=form: [str(binary), form, str(iterations)],
                r"ten iterations take +([\d.]+) us",
                "verified", 1.0) for form in ("blocking", "overlapped")]


def ways_of(mpi: mpis.Mpi, ratios: list[str]) -> dict[str, tuple[list[str] | None, dict[str, str]]]:
    """The options of `tutti run`, None without it, and variables."""
    own_thread = {"alone, progress thread": (None, overlap.OWN_THREADS[mpi.name])} if mpi.name in overlap.OWN_THREADS else {}
    from_job = [ratio for ratio in ratios[-1:] if ":" in ratio]
    return {"alone": (None, {}), **own_thread, "tutti": ([], {}),
            **{f"--dcp {ratio}": (["--dcp", ratio], {}) for ratio in ratios},
            **{f"--dcp {ratio} {FROM_JOB}": (["--dcp", ratio, FROM_JOB], {}) for ratio in from_job}}


def taken_of(ratio: str, ranks: int) -> int:
    """How many of the job's processes a ratio such as 1:4 takes."""
    helpers, of = map(int, ratio.split(":"))
    return math.ceil(ranks * helpers / (helpers + of))


def time_us(job: Job, way: tuple[list[str] | None, dict[str, str]], ranks: int, lab) -> float:
    """Of one run. Ends the benchmark where that failed."""
    tutti, variables = way
    settings = peers.best_settings(job.mpi, ranks, machine.cpus().usable) if lab is None else peers.lab_settings(job.mpi)
    left = ranks - taken_of(tutti[1], ranks) if tutti and FROM_JOB in tutti else ranks
    command = peers.command_line(job.mpi, ranks, settings, job.words(left))
    environment = {name: value for name, value in peers.environment(job.mpi, settings).items() if not name.startswith("TUTTI_")}
    environment |= variables
    if tutti is not None:
        command = [*command_of_tutti(), "run", *tutti, *command]
        if lab is not None:
            environment["TUTTI_NET"] = "on"
    status, said = start.here(command, environment, LIMIT_S) if lab is None else start.in_lab(lab, command, environment, LIMIT_S)
    found = re.search(job.pattern, said)
    if status != 0 or found is None or job.right not in said:
        raise SystemExit(f"{' '.join(command)}: {start.reason(status, LIMIT_S)}\n{start.tail(said)}")
    return float(found.group(1)) * job.unit_us


def measure(job: Job, options: argparse.Namespace, lab, order: random.Random) -> list[dict]:
    ways = ways_of(job.mpi, options.ratio.split(","))
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in order.sample(list(ways), len(ways)):
            times[way].append(time_us(job, ways[way], options.np, lab))
    rows = []
    for way, values in times.items():
        row = {"bench": "dcp_programs", "program": job.name, "form": job.form, "size": job.size, "mpi": job.mpi.name,
               "mpi_version": job.mpi.version, "nodes": options.nodes, "np": options.np,
               "latency": options.latency if options.nodes > 1 else "", "way": way, "us": statistics.median(values),
               "us_min": min(values), "us_max": max(values), "rounds": len(values), "load": os.getloadavg()[0]}
        rows.append(row)
        print(f"{job.name:10s} {job.form:10s} {job.size:11s} {job.mpi.name:8s} {options.np} ranks on {options.nodes} nodes, "
              f"{way:24s} {row['us']:10.0f} us ({row['us_min']:.0f} to {row['us_max']:.0f})", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--np", type=int, default=8)
    parser.add_argument("--latency", default="100us")
    parser.add_argument("--ratio", default="1,1:4", help="the last one is also taken from the job, if it is N:M")
    parser.add_argument("--mpi", default="openmpi,mpich")
    parser.add_argument("--side", type=int, default=350, help="of conjugate gradients")
    parser.add_argument("--solves", type=int, default=1)
    parser.add_argument("--batch", default="3200", help="samples of a rank in a step of the descent, a list: 16 are 1 us")
    parser.add_argument("--steps", type=int, default=400, help="of the descent")
    parser.add_argument("--iterations", type=int, default=500, help="of the barotropic solver")
    parser.add_argument("--only", default="", help="programs, by their names, or name:form")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name]
    lab = texts.LabRequest.parse(options.nodes, options.latency, "0").open() if options.nodes > 1 else contextlib.nullcontext()
    order = random.Random(random.SystemRandom().randrange(10**6))
    with tempfile.TemporaryDirectory(prefix="tutti-dcp-") as folder, lab as opened:
        batches = texts.words(options.batch, "--batch")
        jobs = barotropic(Path(folder), options.iterations)
        for mpi in texts.words(options.mpi, "--mpi"):
            jobs += [*cg(mpi, options.side, options.solves), *sgd(mpi, batches, options.np, options.steps)]
        rows = [row for job in jobs if not wanted or job.name in wanted or f"{job.name}:{job.form}" in wanted
                for row in measure(job, options, opened, order)]
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
