"""The fabric of several nodes over verbs: the unchanged conformance suite, and MPI programs, on four devices."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "build" / "release" / "tests" / "fabric" / "test_fabric_verbs"
# Runs by themselves, because a process that has used verbs cannot fork users of verbs. The order of writes between two
# processes in a pair is shared memory's, and not looked at again here.
PARTS = {"threads": "*Threads*-*LastByte*", "processes": "*Processes*-*LastByte*", "order": "*LastByte*/Threads*",
         "order-processes": "*LastByte*/ProcessesApart"}


@pytest.fixture(autouse=True)
def built():
    if not CONFORMANCE.exists():
        pytest.skip("built without verbs (no librdmacm-dev and libibverbs-dev)")


def conformance(part):
    return pytest.mark.runs(part, [str(CONFORMANCE), f"--gtest_filter={PARTS[part]}"])


@pytest.mark.parametrize("part", [pytest.param(part, marks=conformance(part)) for part in PARTS])
def test_conformance(result, part):
    assert result.status == 0, result.text
    assert "[  PASSED  ]" in result.text and "FAILED" not in result.text


# ---- an MPI program --------------------------------------------------------------------------------

MPICH = ROOT / ".envs" / "mpich" / "bin"
BUILT = ROOT / "build" / "release" / "src"
# The benchmark program checks every result that it times; here the checks are what counts.
PROGRAM = ROOT / "build" / "verbs-vm" / "coll"
OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "gather", "scatter", "alltoall",
              "reduce_scatter_block")
RANKS = 4


def launch(operations):
    """Every rank is a node of its own, with its own device."""
    settings = {"TUTTI_NET": "on", "TUTTI_NET_PROVIDER": "verbs", "TUTTI_ARENA": "64M", "TUTTI_RING": "1M",
                "TUTTI_REPORT": "1", "UCX_TLS": "self,sm,tcp", "FI_PROVIDER": "tcp",
                "LD_LIBRARY_PATH": str(BUILT / "fabric" / "verbs"),
                "LD_PRELOAD": str(BUILT / "mpi" / "libtutti-preload.so")}
    words = [str(MPICH / "mpiexec"), "-n", str(RANKS)]
    for variable, value in settings.items():
        words += ["-genv", variable, value]
    arguments = f"--ops {','.join(operations)} --sizes 4,4096,262144 --time-ms 0.1 --batches 1 --out /tmp/coll.json"
    return [*words, "sh", "-c",
            f"TUTTI_NODE=n$PMI_RANK TUTTI_NET_INTERFACE=e$PMI_RANK exec {PROGRAM} {arguments}"]


@pytest.fixture(scope="session", autouse=True)
def programs():
    """Compiles it; without MPICH the test skips."""
    if (MPICH / "mpicc").exists():
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([MPICH / "mpicc", "-std=gnu11", "-O1", "-o", PROGRAM, ROOT / "bench" / "coll.c"], check=True,
                       timeout=120)


@pytest.mark.runs("collectives", launch(OPERATIONS))
def test_collectives_of_an_mpi_program(result):
    if not (MPICH / "mpicc").exists():
        pytest.skip("mpich is not installed in .envs (make test installs it)")
    assert result.status == 0, result.text
    # All of them by tutti, says its report; with TUTTI_NET=on there is no other network than the one asked for.
    taken = dict(re.findall(r"^MPI_(\w+) +(\S+) +\d+", result.text, re.MULTILINE))
    assert {name.lower() for name in taken} >= set(OPERATIONS), result.text
    assert "native" not in taken.values() and "no network" not in result.text, result.text
