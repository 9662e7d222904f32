"""POP's barotropic solver as a program in virtual time (CDCP-2008, section V-F): conjugate gradients on a grid that is
shared out among the processes. Each iteration computes, exchanges halos with the neighbours, and sums; every tenth one also
corrects the solution and tests whether it has converged, with two more sums and one more exchange. Its numerics are left
out: what is simulated is every message, and the time of the computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tutti.sim import applications, sums
from tutti.sim.applications import REAL, Process

GRID = (320, 384)
GHOST = 2        # rows and columns of a halo
TEST_EVERY = 10  # iterations
# Operations a point: the operator's nine points, two vectors, two scalar products; the correction; the test's residual.
MAIN_FLOPS, CORRECTION_FLOPS, RESIDUAL_FLOPS = 28, 4, 20


@dataclass(frozen=True)
class Solver:
    """`work_us`: of one iteration on one processor. `sum_each`: the first of the three sums belongs to every iteration, as
    conjugate gradients have it; else to the test alone, as the paper's text places it."""

    work_us: float
    sum_each: bool = False

    def run(self, ranks: list[Process], members: list[int], iterations: range, total: Total) -> None:
        """Appends iterations to the programs of the members, who lie on the grid in the order of ranks."""
        for number in iterations:
            test = number % TEST_EVERY == 0
            self._compute(ranks, members, 1.0)
            if self.sum_each and not test:
                total(ranks, lambda: None)
            total(ranks, lambda: exchange_halos(ranks, members))
            if test:
                total(ranks, lambda: self._compute(ranks, members, CORRECTION_FLOPS / MAIN_FLOPS))
                self._compute(ranks, members, RESIDUAL_FLOPS / MAIN_FLOPS)
                total(ranks, lambda: exchange_halos(ranks, members))

    def _compute(self, ranks: list[Process], members: list[int], share: float) -> None:
        for rank in members:
            ranks[rank].compute(share * self.work_us / len(members))


# A sum of all members, around what may be done meanwhile.
Total = Callable[[list[Process], Callable[[], None]], None]


def shape(count: int) -> tuple[int, int]:
    """Columns and rows of processes, so that the parts of the grid are as square as they can be."""
    ways = [(columns, count // columns) for columns in range(1, count + 1) if count % columns == 0]
    return min(ways, key=lambda way: GRID[0] / way[0] + GRID[1] / way[1])


def exchange_halos(ranks: list[Process], members: list[int]) -> None:
    """East and west, around the globe; then north and south, with the corners. There is nobody beyond the poles."""
    columns, rows = shape(len(members))
    width, height = GRID[0] // columns, GRID[1] // rows

    def meet(place: int, neighbours: list[int], size: int) -> None:
        process = ranks[members[place]]
        peers = [members[neighbour] for neighbour in neighbours if neighbour != place]
        requests = [process.irecv(peer, size) for peer in peers] + [process.isend(peer, size) for peer in peers]
        process.wait(*requests)

    for place in range(len(members)):
        row, column = divmod(place, columns)
        meet(place, [row * columns + (column + step) % columns for step in (-1, 1)], GHOST * height * REAL)
    for place in range(len(members)):
        row = place // columns
        inside = [place + step * columns for step in (-1, 1) if 0 <= row + step < rows]
        meet(place, inside, GHOST * (width + 2 * GHOST) * REAL)


def blocking(members: list[int], how: str, size: int = REAL) -> Total:
    """First what might be done meanwhile, then the MPI's own allreduce."""
    def total(ranks: list[Process], meanwhile: Callable[[], None]) -> None:
        meanwhile()
        sums.BLOCKING[how](ranks, members, size)
    return total


def nonblocking(members: list[int], how: str, size: int = REAL) -> Total:
    """NBC_Iallreduce, what can be done meanwhile, NBC_Wait."""
    def total(ranks: list[Process], meanwhile: Callable[[], None]) -> None:
        sums.nonblocking(ranks, members, how, size, meanwhile)
    return total


def dedicated(machine: sums.Dedicated, size: int = REAL) -> Total:
    """DCP_Allreduce, what can be done meanwhile, DCP_Wait."""
    def total(ranks: list[Process], meanwhile: Callable[[], None]) -> None:
        requests = machine.start(ranks, size)
        meanwhile()
        sums.finish(ranks, requests)
    return total


def iteration_us(solver: Solver, net: str, cores: int, members: list[int], total: Total, processors: int) -> float:
    """The mean of ten iterations, of which one tests, after one that makes the connections."""
    ranks = [Process() for _ in range(-(-processors // cores) * cores)]
    solver.run(ranks, members, range(TEST_EVERY, TEST_EVERY + 1), total)
    for rank in members:
        ranks[rank].mark()
    solver.run(ranks, members, range(TEST_EVERY + 1, 2 * TEST_EVERY + 1), total)
    times = applications.run(ranks, "read", net, cores)
    return sum(times["finished_us"][rank] - times["marked_us"][rank] for rank in members) / len(members) / TEST_EVERY
