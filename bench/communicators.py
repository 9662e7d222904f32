"""What making communicators costs, alone and with tutti:
`.venv/bin/python bench/communicators.py [--np 2,4] [--alive N] [--made N] [--json FILE]`.

Each MPI alone and with tutti, interleaved; medians over the rounds, the slowest rank's. Microseconds to make (`dup`) and to
free a duplicate, 10,000 (`--made`) in batches of 200; to split, run eight collectives and free (`split`); KiB of each rank for
each of N duplicates alive (400; Intel MPI by itself aborts with 500), only made (`made`) and used for a blocking and a
non-blocking collective (`used`)."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from startup import compile_for, run
from tutti.host import mpis

WHAT = ("dup", "free", "split", "made", "used")
MODES = ("alone", "tutti")


def measure(found: list[mpis.Mpi], sizes: list[int], rounds: int, folder: Path,
            *words_of: str) -> dict[tuple[str, int, str, str], list[float]]:
    """Samples by MPI, ranks, mode and what."""
    values: dict[tuple[str, int, str, str], list[float]] = {}
    for _ in range(rounds):
        for mpi in found:
            for ranks in sizes:
                for mode in MODES:
                    words = run(mpi, mode, ranks, str(compile_for(mpi, folder, "communicators.c")), *words_of)[2].split()
                    for what, word in zip(WHAT, words[words.index("communicators") + 1:]):
                        values.setdefault((mpi.name, ranks, mode, what), []).append(float(word))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mpi", default="mpich,openmpi,impi")
    parser.add_argument("--np", default="2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alive", type=int, default=400)
    parser.add_argument("--made", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = [mpis.find(name) for name in given.mpi.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        values = measure(found, [int(word) for word in given.np.split(",")], given.rounds, Path(folder), str(given.alive),
                         str(given.made))
    print(f"{'MPI':<9}{'ranks':>6} {'':<6}{'alone':>10}{'tutti':>10}{'ratio':>8}")
    rows = []
    for mpi, ranks, what in dict.fromkeys((key[0], key[1], key[3]) for key in values):
        alone, with_tutti = (statistics.median(values[mpi, ranks, mode, what]) for mode in MODES)
        ratio = f"{with_tutti / alone:8.2f}" if alone > 0 else ""
        print(f"{mpi:<9}{ranks:>6} {what:<6}{alone:10.2f}{with_tutti:10.2f}{ratio}")
        rows += [{"bench": "communicators", "mpi": mpi, "np": ranks, "tutti": mode == "tutti", "what": what,
                  "median": statistics.median(values[mpi, ranks, mode, what]), "min": min(values[mpi, ranks, mode, what]),
                  "max": max(values[mpi, ranks, mode, what])} for mode in MODES]
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
