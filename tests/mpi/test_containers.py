"""Ranks in namespaces of their own, as unprivileged containers have them, share the memory of their node."""

from __future__ import annotations

import subprocess

import mpis
import pytest

BOXES = {"user": ["-Ur"], "most": ["-Ur", "--ipc", "--uts", "--mount"], "pid": ["-Ur", "--pid", "--fork"]}
LOST = "the kernel refuses cross-memory attach between ranks"


def unshare(box: str) -> list[str]:
    words = ["unshare", *BOXES[box]]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=20)
    if tried.returncode != 0:
        pytest.skip(f"{' '.join(words)}: {tried.stderr.strip()}")
    return words


@pytest.mark.mpi
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_they_share_memory(program, libraries, mpi, box):
    """Without a network, so that whatever tutti serves goes through the memory of the node."""
    description = mpis.MPIS[mpi]
    alone = [*unshare(box), program(description, "reductions.c"), "0"]
    if mpis.start(description, 2, alone, False, limit_s=60).status != 0:
        pytest.skip(f"{mpi} by itself does not run in such a box")
    result = mpis.start(description, 2, [*alone, "served"], True, {"TUTTI_REPORT": "1", "TUTTI_NET": "off"}, limit_s=120)
    assert result.status == 0, result.text[-3000:]
    served = [how for (call, how) in result.rows() if call == "MPI_Allreduce" and not how.startswith("MPI")]
    assert served, result.text[-3000:]
    assert result.text.count(LOST) == 1 and "namespaces of their own" in result.text, result.text[-3000:]
