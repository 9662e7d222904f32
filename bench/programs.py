"""Whole programs: each alone and with tutti, interleaved, by the time of the whole job (launcher and MPI_Init included).

    python bench/programs.py [--np 2] [--rounds 3] [--seconds 10] [--only cg,phases] [--json FILE]

The examples in C run over MPICH, Open MPI and Intel MPI; those in Fortran, and hpcc, over what Debian has (apt-get install hpcc
openmpi-bin libopenmpi-dev mpich gfortran). Each program's amount of work is fixed before: as much as takes the MPI alone so many
seconds. Every program checks its result by itself; a wrong one ends this with an error. Every MPI runs at its defaults."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tutti import command as command_of_tutti
from tutti.bench import peers, program
from tutti.host import mpis
from tutti.report.files import write_json

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
PROGRAMS = HERE.parent / "tests" / "mpi" / "programs"  # a sample sort and a transposition; an FFT that transposes
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
LIMIT_S = 280
Prepare = Callable[[Path, int, int], list[str]]  # a folder, the ranks and the work give the command


@dataclass(frozen=True)
class Job:
    """A program over one MPI; `prepare` makes its command line for an amount of work."""

    name: str
    mpi: str
    launcher: list[str]
    environment: dict[str, str]
    prepare: Prepare
    work: int   # to begin with, when it is found out what takes the wanted time
    power: int  # of the work, as which the time grows


def compiled(mpi: mpis.Mpi, source: Path, arguments: Callable[[int], list[str]]) -> Prepare:
    binary = program.compile_for(mpi, source)
    return lambda _folder, _ranks, work: [str(binary), *arguments(work)]


def jobs_in_c() -> list[Job]:
    found = []
    for name in ("mpich", "openmpi", "impi"):
        mpi = mpis.find(name)
        settings = peers.Settings()
        launcher, environment = peers.command_line(mpi, 0, settings, [])[:-2], peers.environment(mpi, settings)
        for title, source, arguments, work in (
                ("cg", EXAMPLES / "cg" / "cg.c", lambda work: ["--side", "64", "--solves", str(work)], 200),
                ("matmul", EXAMPLES / "matmul" / "matmul.c", lambda work: ["480", str(work)], 20),
                ("phases", HERE / "phases.c", lambda work: ["--phases", str(work)], 100),
                ("sort", PROGRAMS / "exchanges.c", lambda work: ["120", "77", "20000", str(work)], 100)):
            found.append(Job(title, mpi.product, launcher, environment, compiled(mpi, source, arguments), work, 1))
        if packages := next((HERE.parent / ".envs").glob("fft/lib/python*/site-packages"), None):
            fft = [str(mpi.prefix / "bin" / "python"), str(PROGRAMS / "fft.py"), "1"]
            found.append(Job("fft", mpi.product, launcher, environment | {"TEST_FFT_PACKAGES": str(packages)},
                             lambda _folder, _ranks, work, fft=fft: [*fft, str(work)], 10, 1))
    return found


def fortran(compiler: str, source: Path, arguments: Callable[[int], list[str]]) -> Prepare:
    def prepare(folder: Path, _ranks: int, work: int) -> list[str]:
        binary = folder / f"{source.stem}-{Path(compiler).name}"
        if not binary.exists():
            subprocess.run([compiler, "-O2", "-o", str(binary), str(source)], cwd=folder, check=True)
        return [str(binary), *arguments(work)]

    return prepare


def hpcc(folder: Path, ranks: int, work: int) -> list[str]:
    """Its example's input with one matrix of this order on a grid of one row."""
    values = {"Ns": work, "NBs": 80, "Ps": 1, "Qs": ranks}
    lines = HPCC_INPUT.read_text().splitlines()
    for number, line in enumerate(lines):
        name = line.split()[-1] if line.split() else ""
        if name in values and "number" not in line:
            lines[number] = f"{values[name]} {name}"
    (folder / "hpccinf.txt").write_text("\n".join(lines) + "\n")
    (folder / "hpccoutf.txt").unlink(missing_ok=True)
    return [shutil.which("hpcc") or "hpcc"]


def jobs_of_debian() -> list[Job]:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    found = []
    for title, suffix, options in (("Debian's Open MPI", "openmpi", ["--oversubscribe", "--allow-run-as-root"]),
                                   ("Debian's MPICH", "mpich", [])):
        launcher, compiler = shutil.which(f"mpiexec.{suffix}"), shutil.which(f"mpifort.{suffix}")
        if launcher is None or compiler is None:
            print(f"skipped: {title} is not installed")
            continue
        start = [launcher, *options]
        ocean = fortran(compiler, EXAMPLES / "barotropic" / "barotropic.F90", lambda work: ["blocking", str(work)])
        adi = fortran(compiler, EXAMPLES / "adi" / "adi.f90", lambda work: ["192", "16", str(work)])
        found += [Job("barotropic", title, start, environment, ocean, 1000, 1), Job("adi", title, start, environment, adi, 10, 1)]
        if suffix == "openmpi" and shutil.which("hpcc"):
            found.append(Job("hpcc", title, start, environment, hpcc, 800, 2))
    return found


def check(job: Job, folder: Path, answer: subprocess.CompletedProcess) -> None:
    said = answer.stdout + answer.stderr
    if job.name == "hpcc" and answer.returncode == 0:
        text = (folder / "hpccoutf.txt").read_text()
        if "Success=1" in text and "FAILED" not in text:
            return
        said = text
    elif answer.returncode == 0 and not re.search("WRONG|wrong", said):
        return
    raise SystemExit(f"{job.name} over {job.mpi}: status {answer.returncode}\n{said[-1500:]}")


def seconds_of(job: Job, ranks: int, work: int, tutti: bool, folder: Path) -> float:
    """One run of the whole job."""
    command = [*job.launcher, "-n", str(ranks), *job.prepare(folder, ranks, work)]
    if tutti:
        command = [*command_of_tutti(), "run", *command]
    began = time.monotonic()
    answer = subprocess.run(command, env=job.environment, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                            check=False, stdin=subprocess.DEVNULL)
    took = time.monotonic() - began
    check(job, folder, answer)
    return took


def enough_work(job: Job, ranks: int, wanted: float, folder: Path) -> int:
    """As much as takes the MPI alone about the wanted seconds and a bit."""
    work = job.work
    for _ in range(8):
        took = seconds_of(job, ranks, work, False, folder)
        if took >= wanted:
            break
        # The start is in it, and no step trusts a short run for more than eightfold.
        work = max(work + 1, int(work * min(8.0, 1.15 * wanted / max(0.2, took - 0.5)) ** (1 / job.power)))
    return work


def measure(job: Job, options: argparse.Namespace, folder: Path) -> dict:
    work = enough_work(job, options.np, options.seconds, folder)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(options.rounds):
        for tutti in (False, True) if number % 2 == 0 else (True, False):
            times[tutti].append(seconds_of(job, options.np, work, tutti, folder))
    alone, with_tutti = (statistics.median(times[tutti]) for tutti in (False, True))
    row = {"bench": "programs", "program": job.name, "mpi": job.mpi, "np": options.np, "work": work, "rounds": options.rounds,
           "alone_s": times[False], "tutti_s": times[True]}
    print(f"{job.name:10s} {job.mpi:18s} {options.np} ranks: alone {alone:6.2f} s, with tutti {with_tutti:6.2f} s; medians "
          f"{alone / with_tutti:5.3f}, fastest {min(times[False]) / min(times[True]):5.3f}", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default="", help="programs, by their names")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name]
    rows = []
    with tempfile.TemporaryDirectory(prefix="tutti-programs-") as folder:
        for job in [*jobs_in_c(), *jobs_of_debian()]:
            if not wanted or job.name in wanted:
                rows.append(measure(job, options, Path(folder)))
                if options.json is not None:
                    write_json(options.json, rows)


if __name__ == "__main__":
    main()
