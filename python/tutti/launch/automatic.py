"""`tutti run --dcp auto:FILE`: how many dedicated processors the job at hand gains from, and why; none where it gains from none.

FILE is what `tutti tune --dcp --app PROFILE --save FILE` has written: what collectives cost on this machine with and without
dedicated processors, and the application's own mix of sizes and overlap, from a report of a run without them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tutti.errors import UserError
from tutti.launch.dcp import Measured, offloadable

PREFIX = "auto:"
LEAST_GAIN = 0.03  # of the whole; what is less is within the errors of the estimate
FORMAT = 1         # of FILE


@dataclass(frozen=True)
class Mix:
    """What an application's slowest rank does in one run, in seconds; of its collectives those that are overlapped, which alone
    dedicated processors serve. Waits are those for all requests: at most so much of them can be saved."""

    ranks: int
    whole: float
    calls: float     # overlapped collectives of a rank
    most_bytes: int  # of one of them, on average of a kind of call
    starts: float
    waits: float
    other: float     # in blocking collectives, which stay as they are

    @property
    def computation(self) -> float:
        return max(0.0, self.whole - self.starts - self.waits - self.other)

    @property
    def overlap_us(self) -> float:
        """Computation that there is to hide one of them behind, at most."""
        return self.computation / self.calls * 1e6 if self.calls else 0.0


@dataclass(frozen=True)
class Cost:
    """A ratio, measured for messages of a size."""

    bytes: int
    measured: Measured


@dataclass(frozen=True)
class Machine:
    """Whom the job at hand runs on: the processors of a node, the job's ranks there, and whether helpers are some of these."""

    processors: int
    ranks: int
    from_job: bool


@dataclass(frozen=True)
class Decision:
    """`ratio`: as for --dcp; None where none pays. `why`: one line."""

    ratio: str | None
    why: str


def read_mix(path: Path) -> Mix:
    """From a file of `tutti run --report-json`. Raises UserError."""
    try:
        text = json.loads(path.read_text())
        ranks, whole = int(text["ranks"]), float(text["seconds"])
        rows = [(row["call"], row["algorithm"], int(row["calls"]), int(row["bytes"]), float(row["seconds"]))
                for row in text["rows"]]
        waits = sum(float(row["seconds"]) for row in text.get("waits", ()))
        if ranks < 1 or whole <= 0:
            raise ValueError
    except OSError as error:
        raise UserError(f"cannot read the profile {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a profile: expected what tutti run --report-json FILE writes") from None
    if any(algorithm == "dcp" for _, algorithm, *_ in rows):
        raise UserError(f"{path} is of a run with dedicated processors; what they save is seen in one without them")
    served = [row for row in rows if overlapped(row[0]) and row[2]]
    return Mix(ranks, whole, sum(row[2] for row in served) / ranks, max((row[3] // row[2] for row in served), default=0),
               sum(row[4] for row in served), waits,
               sum(row[4] for row in rows if offloadable(row[0]) and not overlapped(row[0])))


def overlapped(call: str) -> bool:
    """True for MPI_Iallreduce, MPI_Allreduce_init and the like of the collectives that dedicated processors serve."""
    name = call.removesuffix("_c")
    return offloadable(call) and (name.startswith("MPI_I") or name.endswith("_init"))


def time_with(mix: Mix, one: Measured, machine: Machine) -> float:
    """Seconds of the whole with a ratio: computation + what helpers take of shared processors + max(overhead, latency - overlap)
    for each overlapped collective + the rest. (CDCP-2008, section V-E, whose 1 + r holds where each rank has a processor.)"""
    helpers = max(1, round(one.share * machine.ranks)) if not machine.from_job else \
        max(1, round(machine.ranks * one.share / (1 + one.share)))
    computation, taken = mix.computation, 0.0
    if machine.from_job:
        left = max(1, machine.ranks - helpers)
        computation *= min(machine.ranks, machine.processors) / min(left, machine.processors)
    else:
        without_own = min(helpers, max(0, machine.ranks + helpers - machine.processors))
        taken = mix.calls * one.latency_us * 1e-6 * without_own / machine.processors
    each_us = max(one.overhead_us, one.latency_us - mix.overlap_us)
    return computation + taken + mix.calls * each_us * 1e-6 + mix.other


def decide(mix: Mix, costs: list[Cost], machine: Machine) -> Decision:
    """The ratio with the shortest time for the application's largest overlapped collective."""
    if mix.calls == 0:
        return Decision(None, "the profile has no non-blocking or persistent collective that they serve")
    sizes = sorted({cost.bytes for cost in costs})
    size = next((size for size in sizes if size >= mix.most_bytes), sizes[-1])
    times = {cost.measured.ratio: time_with(mix, cost.measured, machine) for cost in costs if cost.bytes == size}
    ratio = min(times, key=lambda name: times[name])
    gain = 1 - times[ratio] / mix.whole
    what = (f"{mix.calls:.0f} overlapped collectives a rank of up to {mix.most_bytes} bytes, {mix.starts + mix.waits:.3g} of "
            f"{mix.whole:.3g} s in their starts and in waits, {mix.overlap_us:.3g} us to hide each behind, "
            f"{machine.processors} processors for {machine.ranks} ranks")
    if gain < LEAST_GAIN:
        return Decision(None, f"the best of {', '.join(times)} would {'gain' if gain >= 0 else 'cost'} {abs(gain):.1%} ({what})")
    return Decision(ratio, f"at most {gain:.0%} faster ({what})")


# ---- the file ------------------------------------------------------------------------------------


def save(path: Path, mix: Mix, costs: list[Cost]) -> None:
    """Raises UserError."""
    from tutti.report.files import write_text

    text = {"format": FORMAT, "mix": asdict(mix), "costs": [asdict(cost) for cost in costs]}
    write_text(path, json.dumps(text, indent=1) + "\n")


def load(path: Path) -> tuple[Mix, list[Cost]]:
    """Raises UserError."""
    try:
        text: dict[str, Any] = json.loads(path.read_text())
        if text["format"] != FORMAT:
            raise ValueError
        costs = [Cost(int(cost["bytes"]), Measured(**cost["measured"])) for cost in text["costs"]]
        if not costs:
            raise ValueError
        return Mix(**text["mix"]), costs
    except OSError as error:
        raise UserError(f"--dcp auto: cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"--dcp auto: {path} is not what tutti tune --dcp --app PROFILE --save FILE writes") from None


def resolve(wanted: str, words: list[str], from_job: bool) -> Decision:
    """What `--dcp auto:FILE` means for a launcher's command line. Raises UserError."""
    if not wanted.startswith(PREFIX) or wanted == PREFIX:
        raise UserError("--dcp auto wants a file: tutti tune --dcp --app PROFILE --save FILE measures, then say --dcp auto:FILE")
    from tutti.host import machine

    mix, costs = load(Path(wanted.removeprefix(PREFIX)))
    return decide(mix, costs, Machine(machine.cpus().usable, ranks_of(words) or mix.ranks, from_job))


def ranks_of(words: list[str]) -> int | None:
    """Of `mpiexec -n 4 ./app`, of all its programs; None where the command line does not say."""
    from tutti.launch import launcher as launchers

    at = next((at for at, word in enumerate(words) if launchers.is_launcher_name(word)), None)
    if at is None or launchers.find_program(words[at]) is None:
        return None
    kind = launchers.identify(words[at]).kind
    segments = launchers.parse(words, kind, launchers.options_begin(words, kind, at))
    counts = [segment.value_of("n", "np", "c", "ntasks") for segment in segments]
    numbers = [int(count) for count in counts if count is not None and count.isdigit()]
    return sum(numbers) if len(numbers) == len(counts) and numbers else None
