"""Programs of point-to-point messages for the simulator (src/sim/program.hpp): what two applications of RNDV-2006 send,
how much, and what they compute meanwhile. Their numerics are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tutti import native
from tutti.sim import networks

REAL = 8  # bytes
Action = tuple[str, int, int, int, float]


@dataclass
class Process:
    """The actions of one rank, as it would call MPI."""

    actions: list[Action] = field(default_factory=list)
    free: list[int] = field(default_factory=lambda: list(range(31, -1, -1)))

    def compute(self, us: float) -> None:
        self.actions.append(("compute", 0, 0, 0, us))

    def isend(self, peer: int, size: int, tag: int = 0) -> int:
        self.actions.append(("send", peer, tag, self.free[-1], size))
        return self.free.pop()

    def irecv(self, peer: int, size: int, tag: int = 0) -> int:
        self.actions.append(("receive", peer, tag, self.free[-1], size))
        return self.free.pop()

    def wait(self, *requests: int, blocking_call: bool = False) -> None:
        """MPI_Wait or MPI_Waitall; or the waiting inside of MPI_Send and MPI_Recv."""
        if requests:
            self.free.extend(requests)
            self.actions.append(("block" if blocking_call else "wait", 0, 0, sum(1 << r for r in requests), 0))

    def mark(self) -> None:
        """The time is noted (`marked_us`)."""
        self.actions.append(("mark", 0, 0, 0, 0.0))

    def send(self, peer: int, size: int, tag: int = 0) -> None:
        self.wait(self.isend(peer, size, tag), blocking_call=True)

    def recv(self, peer: int, size: int, tag: int = 0) -> None:
        self.wait(self.irecv(peer, size, tag), blocking_call=True)

    def exchange(self, peer: int, size: int, tag: int = 0) -> None:
        """As HPL does it: MPI_Irecv, MPI_Send, MPI_Wait."""
        request = self.irecv(peer, size, tag)
        self.send(peer, size, tag)
        self.wait(request)


@dataclass(frozen=True)
class Linpack:
    """High Performance Linpack on p x q processes, rows of processes in the order of ranks, look-ahead 0, panels
    broadcast along rows in a ring, rows swapped by spreading and rolling."""

    n: int
    nb: int
    p: int
    q: int
    update_gflops: float  # of a process in the update ...
    panel_gflops: float   # ... and in the factorisation of a panel

    def processes(self) -> list[Process]:
        ranks = [Process() for _ in range(self.p * self.q)]
        for panel in range(self.n // self.nb):
            rows = max(self.n - panel * self.nb, self.nb) // self.p             # of a process
            columns = max(self.n - (panel + 1) * self.nb, 0) // self.q
            owner = panel % self.q
            self._factorise(ranks, owner, rows, panel)
            for row in range(self.p):
                self._broadcast(ranks, row, owner, rows * self.nb * REAL, panel)
            if columns:
                for column in range(self.q):
                    self._swap(ranks, column, panel % self.p, columns, panel)
                flops = 2.0 * rows * self.nb * columns
                for rank in ranks:
                    rank.compute(flops / self.update_gflops / 1e3)
        return ranks

    def _factorise(self, ranks: list[Process], owner: int, rows: int, tag: int) -> None:
        """For every column of the panel the pivot, and with it the pivot's row, is found by exchanges in pairs."""
        column = [ranks[row * self.q + owner] for row in range(self.p)]
        for _ in range(self.nb):
            for process in column:
                process.compute(rows * self.nb / self.panel_gflops / 1e3)
            distance = 1
            while distance < self.p:
                for row, process in enumerate(column):
                    process.exchange((row ^ distance) * self.q + owner, (4 + 2 * self.nb) * REAL, tag)
                distance *= 2

    def _broadcast(self, ranks: list[Process], row: int, owner: int, size: int, tag: int) -> None:
        for step in range(self.q):
            column = (owner + step) % self.q
            process = ranks[row * self.q + column]
            if step > 0:
                process.recv(row * self.q + (column - 1) % self.q, size, tag)
            if step < self.q - 1:
                process.send(row * self.q + (column + 1) % self.q, size, tag)

    def _swap(self, ranks: list[Process], column: int, root: int, columns: int, tag: int) -> None:
        """Rows of the panel: spread over the column of processes in a binary tree, then rolled around it."""
        part = self.nb // self.p * columns * REAL
        distance = self.p // 2
        while distance:
            for row in range(0, self.p, 2 * distance):
                source, target = ((root + place) % self.p for place in (row, row + distance))
                ranks[source * self.q + column].send(target * self.q + column, distance * part, tag)
                ranks[target * self.q + column].recv(source * self.q + column, distance * part, tag)
            distance //= 2
        for _ in range(self.p - 1):
            for row in range(self.p):
                left, right = ((row + step) % self.p * self.q + column for step in (-1, 1))
                process = ranks[row * self.q + column]
                request = process.irecv(left, part, tag)
                process.send(right, part, tag)
                process.wait(request)


@dataclass(frozen=True)
class Pentadiagonal:
    """The ADI sweeps of NAS SP on side x side processes, which have as many cells each (multi-partition)."""

    points: int      # along each edge of the grid
    side: int
    flops: float     # a point and an iteration
    mflops: float    # of a process
    iterations: int
    # Shares of the computation, and of that of a sweep. Estimates.
    RHS = 0.40       # everything outside of the sweeps
    LEFT_SIDE, FORWARD, BACK = 0.35, 0.45, 0.20  # a sweep's; the first overlaps the receive of the stage

    def processes(self) -> list[Process]:
        ranks = [Process() for _ in range(self.side ** 2)]
        for _ in range(self.iterations):
            for rank, process in enumerate(ranks):
                self._copy_faces(process, rank)
                self._compute(process, self.RHS)
                for direction in range(3):
                    self._sweep(process, self._next(rank, direction, 1), self._next(rank, direction, -1), direction)
        return ranks

    @property
    def _edge(self) -> int:
        return self.points // self.side

    def _next(self, rank: int, direction: int, step: int) -> int:
        row, column = divmod(rank, self.side)
        row += step * (direction == 0) - step * (direction == 2)
        column += step * (direction == 1) - step * (direction == 2)
        return row % self.side * self.side + column % self.side

    def _compute(self, process: Process, share: float) -> None:
        process.compute(share * self.flops * self.points ** 3 / self.side ** 2 / self.mflops)

    def _copy_faces(self, process: Process, rank: int) -> None:
        """Two planes of five values of all cells but one, to the neighbours in all six directions."""
        size = 10 * (self.side - 1) * self._edge ** 2 * REAL
        ways = [(direction, step) for direction in range(3) for step in (1, -1)]
        requests = [process.irecv(self._next(rank, d, step), size, 2 * d + (step > 0)) for d, step in ways]
        requests += [process.isend(self._next(rank, d, -step), size, 2 * d + (step > 0)) for d, step in ways]
        process.wait(*requests)

    def _sweep(self, process: Process, successor: int, predecessor: int, direction: int) -> None:
        share = (1 - self.RHS) / 3 / self.side  # of a stage
        face = self._edge ** 2 * REAL
        sent: list[int] = []
        for stage in range(self.side):
            received = [process.irecv(predecessor, 22 * face, 10 + direction)] if stage else []
            self._compute(process, share * self.LEFT_SIDE)
            process.wait(*received, *sent)
            self._compute(process, share * self.FORWARD)
            sent = [process.isend(successor, 22 * face, 10 + direction)] if stage < self.side - 1 else []
        for stage in range(self.side):
            received = [process.irecv(successor, 10 * face, 20 + direction)] if stage else []
            process.wait(*received, *sent)
            self._compute(process, share * self.BACK)
            sent = [process.isend(predecessor, 10 * face, 20 + direction)] if stage < self.side - 1 else []
        process.wait(*sent)


def run(processes: list[Process], protocol: str, net: str, ppn: int, eager: int = 8192) -> dict[str, Any]:
    """In virtual time. By rank `waited_us` (MPI_Wait), `blocked_us` (MPI_Send and MPI_Recv), `marked_us` (the last mark) and
    `finished_us`."""
    return native.core().run_program(protocol, networks.path_of(net), len(processes) // ppn, ppn,
                                     [process.actions for process in processes], eager)
