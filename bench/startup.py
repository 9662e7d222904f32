"""What tutti adds to the start and end of a job: `.venv/bin/python bench/startup.py [--json FILE]`.

Each MPI alone, with tutti, and with TUTTI_DISABLE=1, interleaved; medians over the rounds. Of a job of one rank that runs `true`:
wall and processor time of everything. In rank 0 of a program that makes one collective: `init`, `finalize`; `first`: from the
begin of MPI_Init to the end of that collective, because some MPIs put off until then what tutti's start needs, too; `cpu`: of the process."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tutti.bench import peers
from tutti.host import mpis

MODES = {"alone": {}, "tutti": {}, "disabled": {"TUTTI_DISABLE": "1"}}


def compile_for(mpi: mpis.Mpi, folder: Path, source: str = "startup.c") -> Path:
    """The program for this MPI; Intel's runtime has no compiler, and runs MPICH's programs."""
    owner = mpi if mpi.compiler else mpis.find("mpich")
    program = folder / f"{Path(source).stem}-{owner.name}"
    if not program.exists():
        subprocess.run([str(owner.compiler), "-O1", "-o", str(program), str(Path(__file__).parent / source)], check=True)
    return program


def environment_of(mpi: mpis.Mpi) -> dict[str, str]:
    if mpi.product != "Intel MPI":
        return {}
    library = str(mpi.prefix / "lib")
    return {"I_MPI_ROOT": str(mpi.prefix), "FI_PROVIDER_PATH": library, "LD_LIBRARY_PATH": library}


def run(mpi: mpis.Mpi, mode: str, ranks: int, program: str, *words: str) -> tuple[float, float, str]:
    """Wall and processor milliseconds of the whole command, and what it printed."""
    prefix = [] if mode == "alone" else [sys.executable, "-m", "tutti", "run"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*prefix, str(mpi.launcher), *peers.needed_options(mpi), "-n", str(ranks), program, *words],
                          env={**clean, **environment_of(mpi), **MODES[mode]}, capture_output=True, text=True, timeout=120)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{mpi.name}, {mode}, {ranks} ranks: status {done.returncode}\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3, done.stdout


def measure(found: list[mpis.Mpi], sizes: list[int], rounds: int, folder: Path) -> dict[tuple[str, str, int, str], list[float]]:
    values: dict[tuple[str, str, int, str], list[float]] = {}
    for _ in range(rounds):
        for mpi in found:
            for mode in MODES:
                wall, cpu, _ = run(mpi, mode, 1, "true")
                values.setdefault((mpi.name, mode, 0, "wall"), []).append(wall)
                values.setdefault((mpi.name, mode, 0, "cpu"), []).append(cpu)
                for ranks in sizes:
                    words = run(mpi, mode, ranks, str(compile_for(mpi, folder)))[2].split()
                    for what, word in zip(("init", "first", "finalize", "cpu"), words[words.index("startup") + 1:]):
                        values.setdefault((mpi.name, mode, ranks, what), []).append(float(word))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mpi", default="mpich,openmpi,impi")
    parser.add_argument("--np", default="1,2,4,8")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = [mpis.find(name) for name in given.mpi.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        values = measure(found, [int(word) for word in given.np.split(",")], given.rounds, Path(folder))
    print(f"{'MPI':<9}{'ranks':>6} {'ms':<10}" + "".join(f"{mode:>10}" for mode in MODES) + f"{'added':>10}")
    rows = []
    for (mpi, mode, ranks, what), samples in values.items():
        rows.append({"bench": "startup", "mpi": mpi, "mode": mode, "np": ranks or 1, "program": bool(ranks), "what": what,
                     "ms": statistics.median(samples), "ms_min": min(samples), "ms_max": max(samples)})
    for mpi, ranks, what in sorted({(key[0], key[2], key[3]) for key in values}):
        cells = [statistics.median(values[mpi, mode, ranks, what]) for mode in MODES]
        print(f"{mpi:<9}{ranks or '`true`':>6} {what:<10}" + "".join(f"{cell:10.1f}" for cell in cells)
              + f"{cells[1] - cells[0]:10.1f}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
