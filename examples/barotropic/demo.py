"""Runs the barotropic solver (CDCP-2008, section V-F) over an MPI that has a Fortran compiler: the MPI alone, with tutti, and
with a dedicated processor, blocking and overlapped. Ends with a table of ten iterations. Where no MPI has one, a benchmark shows
dedicated processors.

    .venv/bin/python examples/barotropic/demo.py [--rounds 5] [--iterations 300]"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tutti import command as command_of_tutti
from tutti.bench import peers
from tutti.errors import Failure, UserError
from tutti.host import machine
from tutti.host.mpis import Mpi, from_launcher

HERE = Path(__file__).resolve().parent
LIMIT_S = 120
# Compilers of Debian's MPIs, and whichever is first in PATH; the launcher lies beside it under a like name.
COMPILERS = ("mpifort.openmpi", "mpifort.mpich", "mpifort")
WAYS = {"MPI alone": None, "tutti": [], "tutti --dcp 1": ["--dcp", "1"]}
FORMS = ("blocking", "overlapped")


def find_fortran() -> tuple[Path, Mpi] | None:
    """The Fortran compiler of an MPI and the MPI itself, or None."""
    for name in COMPILERS:
        compiler = shutil.which(name)
        launcher = shutil.which(name.replace("mpifort", "mpiexec"))
        if compiler and launcher and shutil.which("gfortran"):
            mpi = from_launcher(Path(launcher), "PATH")
            if mpi is not None:
                return Path(compiler), mpi
    return None


def run_one(mpi: Mpi, ranks: int, program: Path, form: str, way: str, iterations: int) -> float:
    """Microseconds of ten iterations. Raises Failure when the run failed or its result is wrong."""
    settings = peers.best_settings(mpi, ranks, machine.cpus().usable)
    command = peers.command_line(mpi, ranks, settings, [str(program), form, str(iterations)])
    options = WAYS[way]
    if options is not None:
        command = [*command_of_tutti(), "run", *options, *command]
    try:
        answer = subprocess.run(command, env=peers.environment(mpi, settings), capture_output=True, text=True,
                                timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failure(f"not finished after {LIMIT_S} s: {' '.join(command)}") from None
    said = answer.stdout + answer.stderr
    found = re.search(r"ten iterations take +([\d.]+) us", said)
    if answer.returncode != 0 or found is None or "verified" not in said:
        raise Failure(f"exit status {answer.returncode} of {' '.join(command)}\n" + said[-2000:])
    return float(found.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args()
    console = Console(stderr=True)
    found = find_fortran()
    if found is None:
        return show_without_fortran()
    compiler, mpi = found
    ranks = max(2, machine.cpus().usable)
    cells: dict[tuple[str, str], list[float]] = {(way, form): [] for way in WAYS for form in FORMS}
    try:
        with tempfile.TemporaryDirectory(prefix="tutti-demo-") as folder:
            program = Path(folder) / "barotropic"
            subprocess.run([str(compiler), "-O2", "-o", str(program), str(HERE / "barotropic.F90")], cwd=folder, check=True,
                           env={**os.environ, "PATH": f"{compiler.parent}:{os.environ.get('PATH', '')}"})
            for number in range(options.rounds):
                for (way, form), values in cells.items():
                    with console.status(f"round {number + 1} of {options.rounds}: {way}, {form}"):
                        values.append(run_one(mpi, ranks, program, form, way, options.iterations))
    except (Failure, UserError, subprocess.CalledProcessError) as error:
        console.print(f"demo: {error}", highlight=False, soft_wrap=True)
        return 1
    show(mpi, ranks, {cell: statistics.median(values) for cell, values in cells.items()})
    return 0


def show_without_fortran() -> int:
    """Dedicated processors by a benchmark in C, for which the MPIs of .envs are enough."""
    print("The barotropic solver is left out: it is Fortran, and no MPI here has a Fortran compiler (apt-get install gfortran "
          "openmpi-bin libopenmpi-dev). This shows dedicated processors without it:", flush=True)
    return subprocess.run([*command_of_tutti(), "bench", "dcp", "--mpi", "mpich", "--rounds", "3"], check=False).returncode


def show(mpi: Mpi, ranks: int, cells: dict[tuple[str, str], float]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for form in FORMS:
        table.add_column(form, justify="right")
    for way in WAYS:
        table.add_row(way, *(f"{cells[way, form]:,.0f}" for form in FORMS))
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(f"Barotropic solver, 320 x 384 points, {mpi.product} {mpi.version}, {ranks} ranks: us for ten iterations",
                  highlight=False)
    console.print(table)
    spare = machine.cpus().usable - ranks
    console.print("every run was verified against a serial solve" + (
        "" if spare > 0 else f"; the dedicated processor shares {ranks} processors with {ranks} ranks here: it pays where it has "
        "one of its own"), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
