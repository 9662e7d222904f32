"""Allreduces as programs of messages (tutti.sim.applications): what an MPI's own library sends, and what CDCP-2008's does,
whose two calls are MPI_Isend and MPI_Irecv to a dedicated process. For programs around them that are simulated as a whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tutti.sim.applications import Process

TAG = 100  # of sums; programs use those below
SUM_US = 0.05  # to add a few numbers, as the profiles have it


def binomial(ranks: list[Process], members: list[int], size: int) -> None:
    """Figure 1 of CDCP-2008: a tree to the first member, and the same tree back."""
    count, steps = len(members), (len(members) - 1).bit_length()
    for step in range(steps):
        for low in range(0, count, 2 << step):
            high = low + (1 << step)
            if high < count:
                ranks[members[high]].send(members[low], size, TAG)
                ranks[members[low]].recv(members[high], size, TAG)
                ranks[members[low]].compute(SUM_US)
    for step in reversed(range(steps)):
        for low in range(0, count, 2 << step):
            high = low + (1 << step)
            if high < count:
                ranks[members[low]].send(members[high], size, TAG)
                ranks[members[high]].recv(members[low], size, TAG)


def recursive_doubling(ranks: list[Process], members: list[int], size: int) -> None:
    """Exchanges in pairs; of other numbers than powers of two the first ones lend their values to a neighbour."""
    count = len(members)
    power = 1 << (count.bit_length() - 1)
    extra = count - power
    inner = [members[2 * i + 1] for i in range(extra)] + members[2 * extra:]
    for i in range(extra):
        ranks[members[2 * i]].send(members[2 * i + 1], size, TAG)
        ranks[members[2 * i + 1]].recv(members[2 * i], size, TAG)
        ranks[members[2 * i + 1]].compute(SUM_US)
    distance = 1
    while distance < power:
        for place, member in enumerate(inner):
            ranks[member].exchange(inner[place ^ distance], size, TAG)
            ranks[member].compute(SUM_US)
        distance *= 2
    for i in range(extra):
        ranks[members[2 * i + 1]].send(members[2 * i], size, TAG)
        ranks[members[2 * i]].recv(members[2 * i + 1], size, TAG)


BLOCKING = {"binomial tree": binomial, "recursive doubling": recursive_doubling}


def nonblocking(ranks: list[Process], members: list[int], how: str, size: int, meanwhile: Callable[[], None]) -> None:
    """The same sum as NBC has it where nobody looks at it meanwhile: what precedes a member's first wait is done when the sum is
    started, everything else in the wait for it."""
    begins = {rank: len(ranks[rank].actions) for rank in members}
    BLOCKING[how](ranks, members, size)
    rests, slots = {}, {}
    for rank, begin in begins.items():
        process = ranks[rank]
        first = next(at for at in range(begin, len(process.actions)) if process.actions[at][0] not in ("send", "receive"))
        rests[rank], process.actions = process.actions[first:], process.actions[:first]
        slots[rank] = [action[3] for action in process.actions[begin:]]
        process.free = [slot for slot in process.free if slot not in slots[rank]]
    meanwhile()
    for rank, rest in rests.items():
        ranks[rank].actions += rest
        ranks[rank].free += slots[rank]


@dataclass(frozen=True)
class Dedicated:
    """Processes of a program and dedicated ones, spread over nodes of `cores` as in the paper's figure 4. `entry_us`: what
    each entry of the queue of posted receives costs that a message passes before it finds its own; half of them on
    average."""

    apps: int
    dcps: int
    cores: int
    entry_us: float = 0.0

    @property
    def total(self) -> int:
        return self.apps + self.dcps

    @property
    def nodes(self) -> int:
        return -(-self.total // self.cores)

    @cached_property
    def processors(self) -> list[int]:
        """The ranks of the dedicated ones: the last of each run of as many."""
        return [self.total * i // self.dcps - 1 for i in range(1, self.dcps + 1)]

    @cached_property
    def members(self) -> list[int]:
        """The ranks of the program's processes."""
        dedicated = set(self.processors)
        return [rank for rank in range(self.total) if rank not in dedicated]

    @cached_property
    def served(self) -> dict[int, list[int]]:
        """By dedicated rank the ranks that it serves: those of its run."""
        found: dict[int, list[int]] = {rank: [] for rank in self.processors}
        for rank in self.members:
            found[self.processors[bisect_left(self.processors, rank)]].append(rank)
        return found

    def start(self, ranks: list[Process], size: int) -> dict[int, tuple[int, int]]:
        """DCP_Allreduce of every process, and what its dedicated one does with it. What to wait for, by rank."""
        requests = {}
        for dedicated, apps in self.served.items():
            for rank in apps:
                received = ranks[rank].irecv(dedicated, size, TAG)
                requests[rank] = (ranks[rank].isend(dedicated, size, TAG), received)
            self._gather(ranks[dedicated], apps, size)
        recursive_doubling(ranks, self.processors, size)
        for dedicated, apps in self.served.items():
            self._scatter(ranks[dedicated], apps, size)
        return requests

    def _gather(self, process: Process, apps: list[int], size: int) -> None:
        for first in range(0, len(apps), self.OUTSTANDING):
            part = apps[first:first + self.OUTSTANDING]
            process.wait(*[process.irecv(rank, size, TAG) for rank in part], blocking_call=True)
        passed = len(apps) * (len(apps) - 1) / 4
        process.compute(len(apps) * SUM_US + passed * self.entry_us)

    def _scatter(self, process: Process, apps: list[int], size: int) -> None:
        for first in range(0, len(apps), self.OUTSTANDING):
            part = apps[first:first + self.OUTSTANDING]
            process.wait(*[process.isend(rank, size, TAG) for rank in part], blocking_call=True)

    OUTSTANDING = 16  # requests of a process at once; the simulated processes have 32


def finish(ranks: list[Process], requests: dict[int, tuple[int, int]]) -> None:
    """DCP_Wait of every process."""
    for rank, (sent, received) in requests.items():
        ranks[rank].wait(sent, received)
