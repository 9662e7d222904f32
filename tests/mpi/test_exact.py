"""TUTTI_FIXED_ORDER=exact: sums with the bits of the exact sum, for any number of ranks, against Python's fractions."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction
from pathlib import Path

import mpis
import pytest
from test_nodes import on_nodes

ELEMENTS = 300  # of one call, or a few less
INFINITY = float("inf")
NAN = {"d": 0x7FF8 << 48, "f": 0x7FC0 << 16}
FORMATS = {"d": (53, -1074, 1024, "Q"), "f": (24, -149, 128, "I")}  # digits, unit, end of the exponents, bits
REDUCTIONS = ("MPI_Allreduce", "MPI_Reduce", "MPI_Scan", "MPI_Exscan", "MPI_Reduce_scatter_block", "MPI_Reduce_scatter")


def units(term: float, kind: str) -> int:
    """A finite number in the smallest that there is."""
    fraction, exponent = math.frexp(term)
    return int(Fraction(int(fraction * 2 ** 53)) * Fraction(2) ** (exponent - 53 - FORMATS[kind][1]))


def rounded(total: int, kind: str) -> float:
    """Units, to nearest even."""
    digits, unit, end, _ = FORMATS[kind]
    drop = max(abs(total).bit_length() - digits, 0)
    nearest = round(Fraction(abs(total), 2 ** drop)) << drop  # Python's rounds halves to even
    size = INFINITY if nearest >= 1 << (end - unit) else float(nearest * Fraction(2) ** unit)
    return size if total >= 0 else -size


def sum_bits(terms: list[float], kind: str) -> int:
    """Those of the sum, as they lie in memory."""
    infinite = {term for term in terms if abs(term) == INFINITY}
    if any(term != term for term in terms) or len(infinite) == 2:
        return NAN[kind]
    if infinite:
        total = infinite.pop()
    elif all(term == 0 and str(term) == "-0.0" for term in terms):
        total = -0.0
    else:
        total = rounded(sum(units(term, kind) for term in terms), kind)
    return struct.unpack("=" + FORMATS[kind][3], struct.pack("=" + kind, total))[0]


def draw(drawn: random.Random, kind: str, how: int) -> float:
    digits, unit, end, _ = FORMATS[kind]
    sign = drawn.choice((-1, 1))
    fraction = 1 + drawn.getrandbits(digits - 1) / 2 ** (digits - 1)
    special = {6: (INFINITY, 1.0), 7: (INFINITY, -INFINITY, float("nan"), 2.0), 8: (-0.0,)}
    if how in special:
        return drawn.choice(special[how])
    exponents = {0: (-3, 3), 1: (unit + digits, end - 1), 2: (0, 2 * digits), 3: (end - 3, end - 1)}
    if how in exponents:
        return sign * fraction * 2.0 ** drawn.randint(*exponents[how])
    if how == 4:  # subnormal
        return sign * drawn.getrandbits(digits - 2) * 2.0 ** unit
    return sign * 2.0 ** drawn.choice((0, 0, -digits, -digits - 1, -2 * digits))  # ties


def make_file(path: Path, ranks: int, seed: int) -> None:
    """What exact.c reads."""
    drawn = random.Random(seed)
    elements = ELEMENTS // (2 * ranks) * 2 * ranks
    data = [struct.pack("=q", elements)]
    for kind in "df":
        terms: list[list[float]] = [[] for _ in range(ranks)]
        sums: list[list[int]] = [[] for _ in range(ranks)]
        for _ in range(elements):
            how = drawn.randrange(10)
            element = [draw(drawn, kind, min(how, 8) if how != 5 else 5) for _ in range(ranks)]
            if how == 9:  # pairs cancel, and something small may be left
                element = [draw(drawn, kind, 1) for _ in range(ranks)]
                for i in range(1, ranks, 2):
                    element[i] = -element[i - 1]
                drawn.shuffle(element)
            for rank in range(ranks):
                terms[rank].append(element[rank])
                sums[rank].append(sum_bits(element[:rank + 1], kind))
        data += [struct.pack(f"={elements}{kind}", *row) for row in terms]
        data += [struct.pack(f"={elements}{FORMATS[kind][3]}", *row) for row in sums]
    path.write_bytes(b"".join(data))


def run(program, folder: Path, name: str, ranks: int, placement: str = "", settings: dict[str, str] | None = None) -> mpis.Result:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    make_file(folder / "terms", ranks, seed)
    # Intel MPI 2021.18 by itself aborts in persistent collectives that are mixed with others.
    persistent = ["not persistent"] if name == "impi" else []
    command = [program(mpis.MPIS[name], "exact.c"), str(folder / "terms"), *persistent]
    variables = {"TUTTI_FIXED_ORDER": "exact", "TUTTI_REPORT": "1", **(settings or {})}
    if placement:
        command, variables = on_nodes(placement, command), {**variables, "TUTTI_NET": "on"}
    result = mpis.start(mpis.MPIS[name], ranks, command, True, variables)
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "passed (0 failures)" in result.text
    assert ranks == 1 or {*REDUCTIONS} <= {call for call, _ in result.rows()}, result.text[-3000:]
    return result


def by_the_mpi(result: mpis.Result) -> list[tuple[str, str]]:
    """Reductions that were left to it."""
    return [row for row in result.rows() if row[1].startswith("MPI (") and row[0].removesuffix("_init") in
            {*REDUCTIONS, *(f"MPI_I{name[4:].lower()}" for name in REDUCTIONS)}]


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3, 5, 9])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi", "impi"))
def test_on_a_node(program, libraries, tmp_path, mpi, ranks):
    assert not by_the_mpi(run(program, tmp_path, mpi, ranks))


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,placement", [(3, "apart"), (4, "pairs"), (5, "round")])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi", "impi"))
def test_between_nodes(program, libraries, tmp_path, mpi, ranks, placement):
    assert not by_the_mpi(run(program, tmp_path, mpi, ranks, placement))


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_other_algorithms_and_the_mpi_are_not_taken(program, libraries, tmp_path):
    result = run(program, tmp_path, "mpich", 3, "", {"TUTTI_ALG": "allreduce=tree,scan=blocks,reduce=mpi"})
    assert not by_the_mpi(result)
    assert not {("MPI_Allreduce", "tree"), ("MPI_Scan", "blocks")} & result.rows().keys()
    assert "scan blocks cannot run with 3 ranks from 0 bytes on (exact sums need all operands at once)" in result.text


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_dedicated_processors_leave_them_to_the_ranks(program, libraries, tmp_path):
    result = run(program, tmp_path, "mpich", 3, "", {"TUTTI_DCP": "1"})
    assert not by_the_mpi(result)
    assert not [row for row in result.rows() if row[1] == "dcp" and "educe" in row[0] and row[0] != "MPI_Reduce"], result.rows()


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [1, 4, 6, 7, 8])
def test_any_number_of_ranks(program, libraries, tmp_path, ranks):
    run(program, tmp_path, "mpich", ranks)


def test_the_reference_rounds_once():
    assert sum_bits([1.0, 2.0 ** -53, 2.0 ** -106], "d") == struct.unpack("=Q", struct.pack("=d", 1 + 2.0 ** -52))[0]
    assert sum_bits([1e308, 1e308, -1e308], "d") == struct.unpack("=Q", struct.pack("=d", 1e308))[0]
    assert sum_bits([2.0 ** 127, 2.0 ** 127], "f") == 0x7F800000
    assert sum_bits([INFINITY, -INFINITY], "d") == NAN["d"]
    assert sum_bits([-0.0, -0.0], "f") == 0x80000000
