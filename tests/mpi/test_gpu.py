"""Buffers in memory that the processor cannot read, on some ranks and not on others. No GPU is needed: a library
under the driver's name has such memory (standin/gpu.c)."""

from __future__ import annotations

import mpis
import pytest
from test_programs import check

# What the ranks agree on where there is a GPU: no call with its memory may come to the MPI.
GPU = {"TUTTI_CHOICE": "static"}
MPIS = ["mpich", "openmpi", "impi"]  # none of which knows a GPU here


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", [{}, {"TUTTI_P2P": "1", "DEVICE_EARLY": "1"}], ids=["late", "p2p-early"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mpi", MPIS)
def test_device_memory(program, libraries, gpu_library, mpi, ranks, settings):
    settings = {"DEVICE_LIBRARY": gpu_library("cuda"), **settings, **({} if "DEVICE_EARLY" in settings else GPU)}
    check(program, libraries, mpi, ranks, "equivalents.c", ["20000"], True, settings)


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["hip", "level-zero"])
@pytest.mark.parametrize("mpi", MPIS)
def test_device_memory_of_others(program, libraries, gpu_library, mpi, kind):
    settings = {"DEVICE_LIBRARY": gpu_library(kind), "TUTTI_P2P": "1", **GPU}
    check(program, libraries, mpi, 2, "equivalents.c", ["20000"], True, settings)


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_some_ranks_have_a_gpu(program, libraries, gpu_library):
    settings = {"DEVICE_LIBRARY": gpu_library("cuda"), "DEVICE_ODD_RANKS": "1", "TUTTI_P2P": "1", **GPU}
    check(program, libraries, "mpich", 3, "equivalents.c", ["20000"], True, settings)


@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["cuda", "hip", "level-zero"])
@pytest.mark.parametrize("mpi", MPIS)
def test_libraries_come_and_go_and_copies_fail(program, libraries, gpu_library, mpi, kind):
    settings = {"DEVICE_LIBRARY": gpu_library(kind), "OTHER_LIBRARY": gpu_library("other"), **GPU}
    check(program, libraries, mpi, 2, "gpu.c", ["0"], True, settings)


@pytest.mark.mpi
def test_the_stand_in_is_unreadable(program, libraries, gpu_library):
    """Without tutti such buffers crash these MPIs, so that the tests above cannot pass by chance."""
    mpi = mpis.MPIS["mpich"]
    result = mpis.start(mpi, 2, [program(mpi, "equivalents.c"), "1000"], False,
                        {"DEVICE_LIBRARY": gpu_library("cuda")}, limit_s=60)
    assert result.status not in (None, 0)
    assert "Segmentation fault" in result.text or "signal 11" in result.text
