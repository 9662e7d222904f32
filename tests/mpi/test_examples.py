"""The examples' programs that check their own results."""

import subprocess

import mpis
import pytest

MATMUL = mpis.ROOT / "examples" / "matmul" / "matmul.c"


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
