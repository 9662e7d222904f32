"""Ranks in unprivileged containers: each in one of its own shares the memory of the node, and a whole job runs inside one."""

from __future__ import annotations

import shutil
import subprocess

import mpis
import pytest

BOXES = {
    "user": ["unshare", "-Ur"],
    "most": ["unshare", "-Ur", "--ipc", "--uts", "--mount"],
    "pid": ["unshare", "-Ur", "--pid", "--fork"],
    # As rootless engines make them: a root that cannot be written, and a /dev and /proc of its own. Not a /dev/shm: MPICH
    # meets there.
    "bubblewrap": ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent",
                   "--ro-bind", "/", "/", "--dev", "/dev", "--bind", "/dev/shm", "/dev/shm", "--proc", "/proc",
                   "--bind", "/tmp", "/tmp"],
}
LOST = "the kernel refuses cross-memory attach between ranks"


def enter(box: str) -> list[str]:
    """What a command is put behind to run in such a box."""
    words = BOXES[box]
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=20)
    if tried.returncode != 0:
        pytest.skip(f"{' '.join(words)}: {tried.stderr.strip()}")
    return words


def served(result) -> list[str]:
    """By what tutti served allreduces."""
    return [how for (call, how) in result.rows() if call == "MPI_Allreduce" and not how.startswith("MPI")]


@pytest.mark.mpi
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_they_share_memory(program, libraries, mpi, box):
    """Without a network, so that whatever tutti serves goes through the memory of the node."""
    description = mpis.MPIS[mpi]
    alone = [*enter(box), program(description, "reductions.c"), "0"]
    if mpis.start(description, 2, alone, False, limit_s=60).status != 0:
        pytest.skip(f"{mpi} by itself does not run in such a box")
    result = mpis.start(description, 2, [*alone, "served"], True, {"TUTTI_REPORT": "1", "TUTTI_NET": "off"}, limit_s=120)
    assert result.status == 0, result.text[-3000:]
    assert served(result), result.text[-3000:]
    assert result.text.count(LOST) == 1 and "namespaces of their own" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_job_inside_one(program, libraries, mpi):
    """The launcher and all ranks in one container: nothing is lost, cross-memory attach included."""
    inside = mpis.inside(mpis.MPIS[mpi], enter("bubblewrap"))
    command = [program(mpis.MPIS[mpi], "reductions.c"), "0"]
    if mpis.start(inside, 2, command, False, limit_s=60).status != 0:
        pytest.skip(f"{mpi} by itself does not run in such a box")
    result = mpis.start(inside, 2, [*command, "served"], True, {"TUTTI_REPORT": "1", "TUTTI_NET": "off"}, limit_s=120)
    assert result.status == 0 and served(result), result.text[-3000:]
    assert LOST not in result.text, result.text[-3000:]
