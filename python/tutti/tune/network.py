"""`tutti tune --lab`: the terms of the network between two nodes, measured with collectives and messages of two ranks."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from rich.console import Console

from tutti import native, sim
from tutti.bench import coll, rounds, texts
from tutti.bench.rounds import Launch, Plan
from tutti.errors import Failure
from tutti.host import mpis
from tutti.report.files import write_text

SMALL, LOW, HIGH = 8, 65536, 262144
FORCED = {"barrier": "dissemination", "allgather": "exchange"}  # one put each way; simulated for the fit, too
WINDOWS = {"bandwidth": 16, "rate": 128}  # messages in a row, then one back (bench/p2p.c)

Cells = dict[tuple[str, int], float]


def measure(mpi: str, lab: texts.LabRequest, number: int, console: Console) -> Cells:
    """Microseconds by (operation, bytes): medians over the rounds. Raises Failure, UserError."""
    forced = ",".join(f"{op}={alg}" for op, alg in FORCED.items())
    return {**_measure("coll.c", list(FORCED), [LOW, HIGH], {"TUTTI_ALG": forced}, mpi, lab, number, console),
            **_measure("p2p.c", list(WINDOWS), [SMALL], {"TUTTI_P2P": "1"}, mpi, lab, number, console)}


def _measure(source: str, ops: list[str], sizes: list[int], variables: dict[str, str], mpi: str, lab: texts.LabRequest,
             number: int, console: Console) -> Cells:
    time_ms = max(5 * coll.TIME_MS, lab.latency_ns * 1e-6 * coll.TIME_LATENCIES)
    plan = Plan(source, ["--ops", ",".join(ops), "--sizes", ",".join(map(str, sizes)), "--time-ms", str(time_ms)],
                len(sizes) * len(ops), time_ms * 1e-3, number, random.SystemRandom().randrange(10**6), lab)
    found = mpis.find(mpi)
    launch = Launch(found, 2, True, source.removesuffix(".c"), rounds.settings_for(found, 2, lab),
                    {"TUTTI_NET": "on", **variables})
    return rounds.medians(plan, launch, console)


def fit(cells: Cells, host: dict[str, float]) -> dict[str, float]:
    """The terms of [loggp]. A message's overhead and gap are what one more of them in a row takes; a byte's, what larger
    exchanges take longer, without the copy at the receiver; the latency is what is left of a barrier of two once the
    rest has been simulated. Raises Failure where that is less than nothing."""
    barrier = next(us for (op, _), us in cells.items() if op == "barrier")
    few, many = ((WINDOWS[op] * cells[op, SMALL]) for op in WINDOWS)
    gap = (many - few) / (WINDOWS["rate"] - WINDOWS["bandwidth"])
    per_byte = (cells["allgather", HIGH] - cells["allgather", LOW]) / (HIGH - LOW) - host["Tc_per_byte"]
    terms = {"L": 0.0, "o": gap, "g": gap, "G_per_byte": max(per_byte, 0.0), "Tr": gap}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.toml"
        path.write_text(profile(terms, host, "fit", "without latency"))
        rest = sim.simulate("barrier", FORCED["barrier"], str(path), nodes=2, repeat=8)["us"]
    terms["L"] = barrier - rest
    if min(terms["L"], per_byte, gap) <= 0:
        raise Failure(f"these measurements describe no network: a barrier of two nodes takes {barrier:.1f} us, a message's "
                      f"share of the processor {gap:.1f} us, a byte {per_byte:.6f} us; measure on quieter processors")
    return terms


def profile(terms: dict[str, float], host: dict[str, float], name: str, source: str) -> str:
    """As TOML."""
    lines = [f'name = "{name}"', f'source = "{source}"', "", "[loggp]                # microseconds"]
    lines += [f"{key} = {value:.9f}" for key, value in terms.items()]
    lines += ["", "[host]"] + [f"{key} = {value:.9f}" for key, value in host.items()]
    return "\n".join([*lines, "counter_bytes = 8", "copied_bytes = 0", ""])


def run(out: Path, mpi: str, lab: texts.LabRequest, number: int) -> None:
    """Measures, fits, writes the profile, and says what came out."""
    host = dict(native.core().measure_host())
    cells = measure(mpi, lab, number, Console(stderr=True))
    terms = fit(cells, host)
    when = time.strftime("%Y-%m-%d", time.gmtime())
    source = (f"measured by tutti tune on {when} in a lab with a latency of {lab.latency} and a rate of {lab.rate}, "
              f"medians of {number} rounds")
    write_text(out, profile(terms, host, out.stem, source))
    for key, value in terms.items():
        print(f"{key:12} {value:.6g} us")
    print(f"written to {out}; try: tutti explain allreduce --bytes 8 --nodes 8 --net {out}")
