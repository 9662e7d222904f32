"""`tutti tune --dcp`: which ratio of dedicated processors serves this machine, and whether an application gains."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tutti.bench import dcp as bench
from tutti.bench import texts
from tutti.errors import UserError
from tutti.host import machine, mpis
from tutti.launch import automatic
from tutti.launch.dcp import Application, Measured, break_even, fewest_for_overlap, lowest_latency, options_of, read_profile
from tutti.report.files import write_json


def _measured(rows: list[dict[str, Any]], size: int) -> list[Measured]:
    """One for each ratio; latency without computation, overhead with the most of it."""
    longest = max(row["compute_us"] for row in rows)
    return [Measured(row["ratio"], row["dcps"], row["np"], row["us"], row["overhead_us"])
            for row in rows if row["ratio"] and row["bytes"] == size and row["compute_us"] == longest]


def _without(rows: list[dict[str, Any]], size: int) -> float:
    """The blocking allreduce of tutti with all processors as APPs."""
    return next(row["blocking_us"] for row in rows if row["tutti"] and not row["ratio"] and row["bytes"] == size)


def _show(rows: list[dict[str, Any]], size: int) -> None:
    table = Table("--dcp", "DCPs", "bytes", "latency (us)", "overhead (us)", title_justify="left",
                  title="allreduce on dedicated processors; the decision is made at the largest size")
    longest = max(row["compute_us"] for row in rows)
    for row in sorted((row for row in rows if row["ratio"] and row["compute_us"] == longest),
                      key=lambda row: (row["bytes"], row["dcps"])):
        table.add_row(row["ratio"], str(row["dcps"]), str(row["bytes"]), f"{row['us']:.2f}",
                      f"{row['overhead_us']:.3f}")
    Console().print(table)
    print(f"blocking, without dedicated processors: {_without(rows, size):.2f} us for {size} bytes")


def _say_whether(app: Application, one: Measured, without_us: float) -> dict[str, Any]:
    """The break-even condition, as published and corrected."""
    found = break_even(app, one, without_us)
    verdict = "gains" if found.gains else "loses"
    print(f"the application: {app.whole:.4g} s, {app.collectives:.4g} s of it in {app.calls:.0f} collectives a rank, "
          f"{app.computation:.4g} s of computation")
    print(f"  with {one.ratio} taken from its processors: {found.with_dcps:.4g} s: it {verdict} "
          f"{abs(1 - found.with_dcps / found.without):.1%}")
    condition = "r T_comp" if app.overlap_us > 0 else "r / 0.3 T_comp"
    print(f"  the paper's own rule, T_coll > {condition}: it {'gains' if found.published else 'loses'}")
    if not found.gains:
        print("  these cores serve it better as processors of the application")
    return {"without_s": found.without, "with_s": found.with_dcps, "gains": found.gains,
            "published_rule_gains": found.published}


def _say_what_auto_would(mix: automatic.Mix, costs: list[automatic.Cost]) -> None:
    """For helpers beside the job and from it, with the ranks of the profile on this machine."""
    for from_job in (False, True):
        decision = automatic.decide(mix, costs, automatic.Machine(machine.cpus().usable, mix.ranks, from_job))
        way = "from the job" if from_job else "beside it"
        print(f"dedicated processors {way}: {f'--dcp {decision.ratio}' if decision.ratio else 'none'}: {decision.why}")


def run(mpi: str, ranks: int, ratios: str, sizes: str, overlap_us: float, profile: Path | None, point_s: float,
        rounds: int, json_path: Path | None, save: Path | None) -> None:
    """Measures, proposes, and applies the break-even condition to a profile; saves what `--dcp auto` needs. Raises UserError,
    Failure."""
    wanted = texts.words(ratios, "--ratio")
    for text in wanted:
        options_of(text, False)
    if ranks < 2:
        raise UserError(f"--np {ranks}: expected ranks from 2 on")
    numbers = texts.sizes(sizes)
    if any(number % 8 for number in numbers):
        raise UserError(f"--bytes {sizes}: expected bytes in multiples of 8: the elements are doubles")
    if save is not None and profile is None:
        raise UserError("--save keeps what tutti run --dcp auto needs to know of an application: say --app PROFILE too")
    app = read_profile(profile, point_s, overlap_us) if profile is not None else None
    mix = automatic.read_mix(profile) if profile is not None else None
    launches = [bench.Launch(mpis.find(mpi), ranks, dcp) for dcp in ("", *wanted)]
    rows = bench.measure(launches, numbers, [0.0, max(200.0, overlap_us)], rounds, 50.0, bench.Manner(),
                         random.SystemRandom().randrange(10**6), Console(stderr=True))
    size = max(numbers)
    _show(rows, size)
    measured = _measured(rows, size)
    best = lowest_latency(measured)
    print(f"without overlap: --dcp {best.ratio} has the lowest latency")
    chosen = best
    if overlap_us > 0:
        few = fewest_for_overlap(measured, overlap_us)
        if few is None:
            print(f"with {overlap_us:g} us to overlap: no ratio is fast enough; --dcp {best.ratio} comes closest")
        else:
            print(f"with {overlap_us:g} us to overlap: --dcp {few.ratio} is enough")
            chosen = few
    verdict = _say_whether(app, chosen, _without(rows, size)) if app is not None else {}
    if mix is not None:
        costs = [automatic.Cost(number, one) for number in numbers for one in _measured(rows, number)]
        _say_what_auto_would(mix, costs)
        if save is not None:
            automatic.save(save, mix, costs)
            print(f"written to {save}; tutti run --dcp auto:{save} decides by it")
    if json_path is not None:
        write_json(json_path, [{**row, "bench": "tune", "proposed": row["ratio"] == chosen.ratio, **verdict}
                               for row in rows])
