"""How much of a transfer passes while the program computes, over verbs (RNDV-2006, section 5): two ranks on two RDMA devices in
software, in the emulated machine of tests/verbs-vm.

    python bench/verbs_overlap.py [--sizes 65536,262144,1048576,2097152] [--repeats 20] [--together] [--json FILE]

Each rank is a node of its own with its own device. MPICH alone has TCP between the same addresses, with and without its own
progress thread; tutti over it has verbs, by its three protocols. The thread that computes has a processor for itself, and all
that moves data, the devices' kernel threads too, shares the other one; with --together they share both. Needs what
tests/verbs-vm needs (tools/packages.txt), and MPICH in .envs (make test)."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from tutti.bench.overlap import OWN_THREADS, PROTOCOLS, SIDES, overlap_of
from tutti.report.files import write_json

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "verbs-vm"))
import vm  # noqa: E402

MPICH = ROOT / ".envs" / "mpich" / "bin"
BUILT = ROOT / "build" / "release" / "src"
PROGRAM = ROOT / "build" / "verbs-vm" / "overlap"
LIMIT_S = 250
MARK = "ROWS"
ALONE = {"FI_PROVIDER": "tcp", "UCX_TLS": "self,tcp", "MPIR_CVAR_NOLOCAL": "1"}
OURS = {**ALONE, "TUTTI_NET": "on", "TUTTI_NET_PROVIDER": "verbs", "TUTTI_P2P": "1", "TUTTI_ARENA": "64M", "TUTTI_RING": "1M",
        "TUTTI_LOG": "info", "LD_LIBRARY_PATH": str(BUILT / "fabric" / "verbs"),
        "LD_PRELOAD": str(BUILT / "mpi" / "libtutti-preload.so")}
WAYS = {"MPICH alone": ALONE, "with its progress thread": {**ALONE, **OWN_THREADS["mpich"]},
        **{protocol: {**OURS, "TUTTI_RENDEZVOUS": protocol} for protocol in PROTOCOLS}}


def command(settings: dict[str, str], options: argparse.Namespace) -> list[str]:
    out = "/tmp/overlap.json"
    apart = [] if options.together else ["--apart", "1"]
    program = [str(PROGRAM), "--ops", "isend,irecv", "--sizes", options.sizes, "--fractions", "1.25", "--repeats",
               str(options.repeats), *apart, "--out", out]
    launch = [str(MPICH / "mpiexec"), "-n", "2"]
    for name, value in settings.items():
        launch += ["-genv", name, value]
    launch += ["sh", "-c", "TUTTI_NODE=n$PMI_RANK TUTTI_NET_INTERFACE=e$PMI_RANK exec " + " ".join(program)]
    start = " ".join(["'" + word + "'" for word in launch])
    place = "" if options.together else "taskset -c 0 "
    return ["sh", "-c", f"{place}{start} && echo {MARK} && cat {out}"]


def rows_of(way: str, text: str) -> list[dict]:
    rows = []
    for line in text.partition(MARK)[2].split("\n"):
        if not line.startswith("{"):
            continue
        cell = json.loads(line)
        comm, compute, both, wait = (statistics.median(cell[name]) for name in ("comm_us", "compute_us", "us", "wait_us"))
        rows.append({"bench": "verbs_overlap", "op": cell["op"], "side": SIDES[cell["op"]], "bytes": cell["bytes"], "way": way,
                     "comm_us": comm, "compute_us": compute, "us": both, "wait_us": wait,
                     "overlap": overlap_of(comm, compute, both)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="65536,262144,1048576,2097152", help="bytes")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([MPICH / "mpicc", "-std=gnu11", "-O2", "-o", PROGRAM, ROOT / "bench" / "overlap.c", "-pthread"], check=True)
    rows = []
    for way, result in zip(WAYS, vm.run([command(settings, options) for settings in WAYS.values()], LIMIT_S), strict=True):
        found = rows_of(way, result.text) if result.status == 0 else []
        if way in PROTOCOLS and "network verbs" not in result.text:  # nobody else's figures under its name
            found = []
        if not found:
            raise SystemExit(f"{way}: status {result.status}\n{result.text[-2000:]}")
        rows += found
    for row in sorted(rows, key=lambda row: (row["op"], row["bytes"])):
        print(f"{row['op']:6s} {row['bytes']:8d} B  {row['way']:26s} transfer {row['comm_us']:9.0f} us, computation "
              f"{row['compute_us']:9.0f}, both {row['us']:9.0f}, in MPI_Wait {row['wait_us']:8.1f} "
              f"({row['wait_us'] / row['comm_us']:6.1%} of the transfer), overlap {row['overlap']:4.0%}")
    if options.json is not None:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
