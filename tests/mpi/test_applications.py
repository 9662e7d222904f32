"""Programs that others wrote, as binaries: hpcc and ScaLAPACK's tests (Debian, Open MPI 4.1) and Intel's IMB-MPI1. They run under
tutti, and say by themselves whether their results are right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import mpis
import pytest
from test_where import DIFFER

SCALAPACK = Path("/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests")
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
SETTINGS = {"TUTTI_REPORT": "1", "TUTTI_CHECK": "calls"}


def served_calls(result: mpis.Result) -> int:
    return sum(count for (_, algorithm), count in result.rows().items() if not algorithm.startswith("MPI ("))


def messages_by_tutti(result: mpis.Result) -> bool:
    return any(call.lower().endswith("send") and not way.startswith("MPI (") for call, way in result.rows())


def check_nothing_found(result: mpis.Result) -> None:
    assert not DIFFER.search(result.text) and "never completed" not in result.text, result.text[-3000:]


def small_problem(example: str, ranks: int) -> str:
    """hpcc's own example input for a grid of 1 x `ranks` and a small matrix."""
    lines = example.splitlines()
    for number, line in enumerate(lines):
        if line.rstrip().endswith(" Ns") and "number" not in line:
            lines[number] = "400          Ns"
        elif line.rstrip().endswith(" Ps"):
            lines[number] = "1            Ps"
        elif line.rstrip().endswith(" Qs"):
            lines[number] = f"{ranks}            Qs"
    return "\n".join(lines) + "\n"


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("messages", ["0", "1"])
def test_hpcc(libraries, tmp_path, monkeypatch, messages):
    hpcc = shutil.which("hpcc")
    if hpcc is None or not HPCC_INPUT.exists():
        pytest.skip("hpcc is not installed (apt-get install hpcc)")
    (tmp_path / "hpccinf.txt").write_text(small_problem(HPCC_INPUT.read_text(), 2))
    monkeypatch.chdir(tmp_path)
    result = mpis.start(mpis.MPIS["openmpi-debian"], 2, [hpcc], True, SETTINGS | {"TUTTI_P2P": messages}, limit_s=800)
    assert result.status == 0, result.text[-3000:]
    check_nothing_found(result)
    said = (tmp_path / "hpccoutf.txt").read_text()
    assert "Success=1" in said
    assert re.search(r"^ *[1-9]\d* tests completed and passed residual checks", said, re.MULTILINE)
    assert not re.search(r"^ *[1-9]\d* tests completed and failed residual checks", said, re.MULTILINE)
    assert "FAILED" not in said
    assert served_calls(result) > 1000, result.text[-3000:]
    assert messages_by_tutti(result) == (messages == "1"), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("solver,data", [("xdlu", "LU.dat"), ("xdqr", "QR.dat"), ("xdtrd", "TRD.dat")])
def test_scalapack(libraries, tmp_path, monkeypatch, solver, data):
    """Grids of processes: communicators for rows and columns, made and freed for each problem."""
    if not (SCALAPACK / solver).exists():
        pytest.skip("ScaLAPACK's tests are not installed (apt-get install scalapack-mpi-test)")
    shutil.copy(SCALAPACK / data, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = mpis.start(mpis.MPIS["openmpi-debian"], 4, [str(SCALAPACK / solver)], True, SETTINGS, limit_s=200)
    assert result.status == 0, result.text[-3000:]
    check_nothing_found(result)
    assert re.search(r"^ *[1-9]\d* tests completed and passed residual checks", result.text, re.MULTILINE), result.text[-3000:]
    assert re.search(r"^ *0 tests completed and failed residual checks", result.text, re.MULTILINE), result.text[-3000:]
    assert served_calls(result) > 0, result.text[-3000:]


# Of IMB-MPI1, what is not a collective.
NOT_COLLECTIVE = re.compile("PingP|Sendrecv|Exchange|Uniband|Biband|Reduce_local")


def imb(program: str, least: int) -> tuple[mpis.Mpi, Path, list[str]]:
    """Intel MPI, the binary, and the names of all benchmarks that it lists."""
    mpi = mpis.MPIS["impi"]
    binary = Path(mpi.launcher[0]).parent / program
    if not binary.exists():
        pytest.skip(f"{program} is not part of the installed impi-rt")
    listed = mpis.start(mpi, 1, [str(binary), "-list"], False)
    benchmarks = re.findall(r"^#? *([A-Z][A-Za-z_0-9]+)(?: \(non-default\))?$", listed.text, re.MULTILINE)
    assert len(benchmarks) >= least, listed.text
    return mpi, binary, benchmarks


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("program,least", [("IMB-P2P", 7), ("IMB-MPI1", 13)])
def test_imb_messages(libraries, program, least, ranks):
    """Messages by tutti, in every benchmark that has some."""
    mpi, binary, benchmarks = imb(program, least)
    options = ["-iter", "30", "-msglog", "0:18"]
    if program == "IMB-MPI1":
        benchmarks = [name for name in benchmarks if NOT_COLLECTIVE.match(name) and name != "Reduce_local"]
        options += [*benchmarks, "-npmin", str(ranks), "-time", "0.1"]
    result = mpis.start(mpi, ranks, [str(binary), *options], True, SETTINGS | {"TUTTI_P2P": "1"}, limit_s=500)
    assert result.status == 0, result.text[-3000:]
    check_nothing_found(result)
    for name in benchmarks:
        assert f"# Benchmarking {name}" in result.text or f"Benchmark {name} is invalid for {ranks} processes" in result.text
    assert messages_by_tutti(result), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("program", ["IMB-MPI1", "IMB-NBC"])
def test_imb(libraries, program, ranks):
    """Every benchmark that it lists."""
    mpi, binary, benchmarks = imb(program, 13)
    result = mpis.start(mpi, ranks, [str(binary), *benchmarks, "-npmin", str(ranks), "-iter", "30", "-time", "0.1",
                                     "-msglog", "0:18"], True, SETTINGS, limit_s=500)
    assert result.status == 0, result.text[-3000:]
    check_nothing_found(result)
    for name in benchmarks:
        assert f"# Benchmarking {name}" in result.text
    served = {call for call, algorithm in result.rows() if not algorithm.startswith("MPI (")}
    collectives = {name.removesuffix("_pure") for name in benchmarks if not NOT_COLLECTIVE.match(name)}
    assert {f"MPI_{name}" for name in collectives} <= served, result.text[-3000:]
