"""The examples' programs that check their own results."""

import re
import subprocess

import mpis
import pytest
from test_nodes import on_nodes

MATMUL = mpis.ROOT / "examples" / "matmul" / "matmul.c"
OVERLAPPED = {"cg": ["--side", "40", "--form", "pipelined"], "sgd": ["--form", "delayed", "--steps", "300"]}


@pytest.mark.mpi
@pytest.mark.parametrize("size,ranks", [(1, 3), (61, 2), (200, 3), (128, 4)])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_matmul(libraries, tmp_path, mpi, size, ranks):
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    subprocess.run([str(description.compiler), "-O2", "-o", "matmul", str(MATMUL), "-lm"], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    result = mpis.start(description, ranks, [str(tmp_path / "matmul"), str(size), "3"], True, {"TUTTI_REPORT": "1"})
    assert result.status == 0 and "matmul: verified" in result.text, result.text[-3000:]
    taken = {algorithm for call, algorithm in result.rows() if call == "MPI_Allgather"}
    assert taken and not any(algorithm.startswith("MPI (") for algorithm in taken), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("name", OVERLAPPED)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("dcp", [{}, {"TUTTI_DCP": "1"}], ids=["", "dcp"])
def test_overlapped(libraries, tmp_path, mpi, name, dcp):
    """Solvers whose sums are under way while they compute, with and without dedicated processors."""
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    subprocess.run([str(description.compiler), "-O2", "-o", name, str(mpis.ROOT / "examples" / name / f"{name}.c"), "-lm"],
                   cwd=tmp_path, check=True, capture_output=True, timeout=120)
    result = mpis.start(description, 3, [str(tmp_path / name), *OVERLAPPED[name]], True, {"TUTTI_REPORT": "1", **dcp})
    assert result.status == 0 and ": right" in result.text, result.text[-3000:]
    taken = {algorithm for call, algorithm in result.rows() if call == "MPI_Iallreduce"}
    assert taken and (taken == {"dcp"}) is bool(dcp), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("arguments", [["stencil", "--edge", "60", "--planes", "7", "--steps", "30"],
                                       ["stencil", "--edge", "150", "--planes", "2", "--steps", "11"],
                                       ["pipeline", "--bytes", "4096", "--blocks", "50", "--passes", "3"],
                                       ["pipeline", "--bytes", "1000000", "--blocks", "9", "--passes", "2"]],
                         ids=lambda arguments: "-".join(arguments[:3:2]))
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_messages_beside_computation(libraries, tmp_path, mpi, arguments):
    """Programs whose messages are under way while they compute, on one node and on three."""
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    name = arguments[0]
    subprocess.run([str(description.compiler), "-O2", "-o", name, str(mpis.ROOT / "examples" / name / f"{name}.c"), "-lm"],
                   cwd=tmp_path, check=True, capture_output=True, timeout=120)
    for network in ({}, {"TUTTI_NET": "on"}):
        command = [str(tmp_path / name), *arguments[1:]]
        command = on_nodes("apart", command) if network else command
        result = mpis.start(description, 3, command, True, {"TUTTI_P2P": "1", "TUTTI_REPORT": "1", **network})
        assert result.status == 0 and f"{name}: verified" in result.text, result.text[-3000:]
        ways = {way for call, way in result.rows() if call == "MPI_Isend"}
        large = "1000000" in arguments
        assert ways - {"nobody"} == {"rendezvous" if large else "eager"}, result.text


@pytest.mark.mpi
def test_pipelined_gradients_need_as_many_iterations_on_a_large_grid(libraries, tmp_path):
    """Their recurrences drift: without residual replacement they never reach the tolerance there."""
    mpi = mpis.MPIS["mpich"]
    subprocess.run([str(mpi.compiler), "-O2", "-o", "cg", str(mpis.ROOT / "examples" / "cg" / "cg.c"), "-lm"], cwd=tmp_path,
                   check=True, capture_output=True, timeout=120)
    iterations = []
    for form in ("blocking", "pipelined"):
        result = mpis.start(mpi, 2, [str(tmp_path / "cg"), "--side", "350", "--form", form, "--solves", "1"], True)
        assert result.status == 0 and ": right" in result.text, result.text[-3000:]
        iterations.append(int(re.search(r"after (\d+) iterations", result.text)[1]))
    assert abs(iterations[0] - iterations[1]) <= 5, iterations
