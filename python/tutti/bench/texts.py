"""What several benchmarks are given as text: lists of words, ranks and sizes, and a lab."""

from __future__ import annotations

from dataclasses import dataclass

from tutti import native
from tutti.errors import UserError
from tutti.lab import Lab, values

SIZE_STEP = 4  # between the sizes of a range
MAX_RANKS = 1024


@dataclass(frozen=True)
class LabRequest:
    """The cluster in a box to measure in."""

    nodes: int
    latency: str
    rate: str
    latency_ns: int

    @staticmethod
    def parse(nodes: int | None, latency: str | None, rate: str | None) -> LabRequest | None:
        """Raises UserError."""
        if nodes is None:
            if latency is not None or rate is not None:
                raise UserError("--latency and --rate are those of a lab: say --lab NODES too")
            return None
        values.bits_per_second(rate or "0", "--rate")
        return LabRequest(nodes, latency or "0", rate or "0", values.nanoseconds(latency or "0", "--latency"))

    def open(self) -> Lab:
        return Lab(self.nodes, latency=self.latency, rate=self.rate)


def words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UserError(f"{option}: expected a list separated by commas")
    return list(dict.fromkeys(words))


def ranks(text: str) -> list[int]:
    numbers = []
    for word in words(text, "--np"):
        if not word.isdigit() or not 1 <= int(word) <= MAX_RANKS:
            raise UserError(f"--np {word}: expected numbers of ranks from 1 to {MAX_RANKS}, such as 2,4,8")
        numbers.append(int(word))
    return numbers


def byte_count(text: str) -> int:
    count = native.core().bytes_of(text)
    if count <= 0 or count % 4:
        raise UserError(f"--sizes {text}: expected bytes in multiples of 4, such as 4, 64, 16K or 4M")
    return count


def sizes(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    if not colon:
        return sorted({byte_count(word) for word in words(text, "--sizes")})
    low, high = byte_count(first), byte_count(last)
    if low > high:
        raise UserError(f"--sizes {text}: the range is empty")
    sizes = []
    while low < high:
        sizes.append(low)
        low *= SIZE_STEP
    return [*sizes, high]
