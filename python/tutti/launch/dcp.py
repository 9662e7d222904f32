"""Dedicated collective processors: what `tutti run --dcp` asks for, and which ratio pays (CDCP-2008, section V-E)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tutti.errors import UserError


def options_of(wanted: str | None, from_job: bool) -> dict[str, str]:
    """The settings for `--dcp` and `--dcp-from-job`. Raises UserError where they ask for what cannot be."""
    if from_job and wanted is None and not os.environ.get("TUTTI_DCP"):
        raise UserError("--dcp-from-job says where dedicated processors come from; --dcp says how many (1, or 1:4)")
    taken = {"TUTTI_DCP_FROM_JOB": "1"} if from_job else {}
    if wanted is None:
        return taken
    if not re.fullmatch(r"0*[1-9][0-9]*(:0*[1-9][0-9]*)?", wanted):
        raise UserError(f"--dcp is '{wanted}'; expected a number of dedicated processors for each node (1), or a "
                        "ratio to the program's processes (1:4), or auto:FILE")
    return {"TUTTI_DCP": wanted, **taken}


# ---- choosing a ratio ------------------------------------------------------------------------------------------------

OFFLOADED = ("barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall")
PUBLISHED_GAIN = 0.3  # CDCP-2008, section V-E: the collective takes 70 % of its time


@dataclass(frozen=True)
class Measured:
    """A ratio, and what was measured with it for the application's largest size."""

    ratio: str
    dcps: int
    apps: int
    latency_us: float
    overhead_us: float

    @property
    def share(self) -> float:
        """DCPs to each APP: r of the break-even condition."""
        return self.dcps / self.apps


def lowest_latency(measured: list[Measured]) -> Measured:
    """The paper's first rule: the ratio with the lowest latency; of equal ones the fewest DCPs."""
    return min(measured, key=lambda one: (one.latency_us, one.dcps))


def fewest_for_overlap(measured: list[Measured], overlap_us: float) -> Measured | None:
    """The paper's second rule: the fewest DCPs whose latency is not above the time to overlap; None where even the
    fastest takes longer."""
    fitting = [one for one in measured if one.latency_us <= overlap_us]
    return min(fitting, key=lambda one: (one.dcps, one.latency_us)) if fitting else None


@dataclass(frozen=True)
class Application:
    """Where a run's time went, in seconds of its slowest rank; from a profile of tutti run --report-json."""

    whole: float
    collectives: float  # in those that can be offloaded
    calls: float        # of them, by each rank
    point: float = 0.0  # in point-to-point communication, which the profile does not know
    overlap_us: float = 0.0  # computation that each collective may hide behind

    @property
    def computation(self) -> float:
        return max(0.0, self.whole - self.collectives - self.point)


@dataclass(frozen=True)
class BreakEven:
    """An application's time with all processors as APPs, and with some of them as DCPs; and the paper's own rule."""

    without: float
    with_dcps: float
    published: bool

    @property
    def gains(self) -> bool:
        return self.with_dcps < self.without


def break_even(app: Application, one: Measured, latency_without_us: float) -> BreakEven:
    """Whether processors serve the application better as DCPs, where their number is the same.

    (1 + r) T_comp + max(overhead, c(r) T_coll - T_overlap) + T_point < T_comp + T_coll + T_point, with c(r) the
    measured latency on DCPs over that without. The paper's own rule has c = 0.7, which it measured with extra
    processors, and no overhead: T_coll > r / 0.3 T_comp, with overlap T_coll > r T_comp."""
    r = one.share
    c = one.latency_us / latency_without_us
    overhead = app.calls * one.overhead_us * 1e-6
    hidden = app.calls * app.overlap_us * 1e-6
    with_dcps = (1 + r) * app.computation + max(overhead, c * app.collectives - hidden) + app.point
    needed = r * app.computation / (1.0 if app.overlap_us > 0 else PUBLISHED_GAIN)
    return BreakEven(app.whole, with_dcps, app.collectives > needed)


def read_profile(path: Path, point: float = 0.0, overlap_us: float = 0.0) -> Application:
    """A file of `tutti run --report-json`. Raises UserError."""
    try:
        text = json.loads(path.read_text())
        ranks, whole = int(text["ranks"]), float(text["seconds"])
        rows = [row for row in text["rows"] if offloadable(row["call"])]
        calls = sum(int(row["calls"]) for row in rows) / ranks
        seconds = sum(float(row["seconds"]) for row in rows)
    except OSError as error:
        raise UserError(f"cannot read the profile {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a profile: expected what tutti run --report-json FILE writes") from None
    if point < 0 or point + seconds > whole:
        raise UserError(f"--point {point:g}: the run took {whole:.3g} s, of which {seconds:.3g} in collectives")
    return Application(whole, seconds, calls, point, overlap_us)


def offloadable(call: str) -> bool:
    """True for MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init and the like."""
    name = call.removeprefix("MPI_").lower().removesuffix("_c").removesuffix("_init")
    return name in OFFLOADED or name.removeprefix("i") in OFFLOADED
