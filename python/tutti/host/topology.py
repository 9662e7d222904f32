"""The processors of this machine by package, NUMA domain and last-level cache, as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tutti import native


@dataclass(frozen=True)
class Cpu:
    """One hardware thread. `core` and `cache`: the lowest number of those that share it."""

    number: int
    package: int
    core: int
    numa: int
    cache: int


def cpus() -> list[Cpu]:
    """The online ones, by number."""
    return [Cpu(*cpu) for cpu in native.core().cpus()]


def ranges(numbers: Iterable[int]) -> str:
    """As the kernel writes a list of them: 0-7,16."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def draw(all_cpus: list[Cpu]) -> list[str]:
    """A line for each NUMA domain: its package, and the CPUs below each last-level cache. A domain with more than one
    package beside it (as in some virtual machines) has a line in each."""
    lines = []
    for package, numa in sorted({(cpu.package, cpu.numa) for cpu in all_cpus}):
        caches: dict[int, list[int]] = {}
        for cpu in all_cpus:
            if (cpu.package, cpu.numa) == (package, numa):
                caches.setdefault(cpu.cache, []).append(cpu.number)
        below = "  ".join(f"[{ranges(numbers)}]" for _, numbers in sorted(caches.items()))
        lines.append(f"package {package}, NUMA domain {numa}: {below}")
    return lines
