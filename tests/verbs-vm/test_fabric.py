"""The fabric of several nodes over verbs: the unchanged conformance suite, and MPI programs, on four devices."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "build" / "release" / "tests" / "fabric" / "test_fabric_verbs"
MULTICAST = ROOT / "build" / "release" / "tests" / "coll" / "test_coll_multicast_verbs"
# Runs by themselves, because a process that has used verbs cannot fork users of verbs. The order of writes between two
# processes in a pair is shared memory's, and not looked at again here.
PARTS = {"threads": "*Threads*-*LastByte*:Rxm*", "processes": "*Processes*-*LastByte*", "order": "*LastByte*/Threads*",
         "order-processes": "*LastByte*/ProcessesApart", "libfabric": "Rxm*-*LastByte*:*ATailCovers*"}
# What libfabric would have by itself is more than SoftRoCE's queues hold.
SMALL_QUEUES = ["env", "FI_UNIVERSE_SIZE=8", "FI_OFI_RXM_MSG_TX_SIZE=128", "FI_OFI_RXM_MSG_RX_SIZE=128"]


@pytest.fixture(autouse=True)
def built():
    if not CONFORMANCE.exists():
        pytest.skip("built without verbs (no librdmacm-dev and libibverbs-dev)")


def conformance(part):
    return pytest.mark.runs(part, [*SMALL_QUEUES, str(CONFORMANCE), f"--gtest_filter={PARTS[part]}"])


@pytest.mark.parametrize("part", [pytest.param(part, marks=conformance(part)) for part in PARTS])
def test_conformance(result, part):
    assert result.status == 0, result.text
    assert "[  PASSED  ]" in result.text and "FAILED" not in result.text


# ---- an MPI program --------------------------------------------------------------------------------

MPICH = ROOT / ".envs" / "mpich" / "bin"
BUILT = ROOT / "build" / "release" / "src"
# The benchmark programs check every result that they time; here the checks are what counts.
PROGRAMS = ROOT / "build" / "verbs-vm"
OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "gather", "scatter", "alltoall",
              "reduce_scatter_block")
RANKS = 4


def launch(program, *arguments, **more):
    """Every rank is a node of its own, with its own device."""
    settings = {"TUTTI_NET": "on", "TUTTI_NET_PROVIDER": "verbs", "TUTTI_ARENA": "64M", "TUTTI_RING": "1M",
                "TUTTI_REPORT": "1", "TUTTI_DEADLINE": "60", "UCX_TLS": "self,sm,tcp", "FI_PROVIDER": "tcp",
                "LD_LIBRARY_PATH": str(BUILT / "fabric" / "verbs"),
                "LD_PRELOAD": str(BUILT / "mpi" / "libtutti-preload.so")} | more
    words = [str(MPICH / "mpiexec"), "-n", str(RANKS)]
    for variable, value in settings.items():
        words += ["-genv", variable, value]
    line = " ".join(map(str, (PROGRAMS / program, *arguments)))
    return [*words, "sh", "-c", f"TUTTI_NODE=n$PMI_RANK TUTTI_NET_INTERFACE=e$PMI_RANK exec {line}"]


def collectives(operations, sizes, **more):
    return launch("coll", "--ops", ",".join(operations), "--sizes", sizes, "--time-ms", 0.1, "--batches", 1,
                  "--out", "/tmp/coll.json", **more)


@pytest.fixture(scope="session", autouse=True)
def programs():
    """Compiles them; without MPICH the tests skip."""
    if (MPICH / "mpicc").exists():
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        for path in ("bench/coll.c", "bench/bcast_by_rank.c", "tests/mpi/programs/traffic.c"):
            source = ROOT / path
            subprocess.run([MPICH / "mpicc", "-std=gnu11", "-O1", "-o", PROGRAMS / source.stem, source, "-pthread"],
                           check=True, timeout=120)


@pytest.fixture
def mpich():
    if not (MPICH / "mpicc").exists():
        pytest.skip("mpich is not installed in .envs (make test installs it)")


def algorithms(said):
    """What the report says: the algorithms of each call of MPI."""
    taken = {}
    for call, name in re.findall(r"^MPI_(\w+) +(\S+) +\d+", said, re.MULTILINE):
        taken.setdefault(call.lower(), set()).add(name)
    return taken


@pytest.mark.runs("collectives", collectives(OPERATIONS, "4,4096,262144"))
@pytest.mark.usefixtures("mpich")
def test_collectives_of_an_mpi_program(result):
    assert result.status == 0, result.text
    # All of them by tutti, says its report; with TUTTI_NET=on there is no other network than the one asked for.
    taken = algorithms(result.text)
    assert taken.keys() >= set(OPERATIONS), result.text
    assert not any("native" in names for names in taken.values()) and "no network" not in result.text, result.text


# ---- messages --------------------------------------------------------------------------------------

MESSAGES = ROOT / "build" / "release" / "tests" / "p2p"


@pytest.mark.runs("interrupts", [str(MESSAGES / "test_p2p_progress_verbs"), "--gtest_filter=*TwoNodes*"])
def test_interrupts_are_selective(result):
    assert result.status == 0, result.text
    assert "[  PASSED  ]" in result.text and "FAILED" not in result.text


@pytest.mark.runs("random-messages", [str(MESSAGES / "test_p2p_random_verbs"), "--gtest_filter=*Nodes*"])
def test_random_messages(result):
    assert result.status == 0, result.text
    assert "[  PASSED  ]" in result.text and "FAILED" not in result.text


@pytest.mark.runs("traffic", launch("traffic", 0, 2, TUTTI_P2P="1"))
@pytest.mark.usefixtures("mpich")
def test_random_messages_of_an_mpi_program(result):
    assert result.status == 0 and "passed (0 failures)" in result.text, result.text
    sends = {name for call, names in algorithms(result.text).items() if call.endswith("send") for name in names}
    assert sends - {"MPI"}, result.text


# ---- multicast -------------------------------------------------------------------------------------

@pytest.mark.runs("multicast", [str(MULTICAST)])
def test_multicast(result):
    """Broadcasts and others between four devices, with losses put in on purpose, every byte."""
    assert result.status == 0, result.text
    assert "[  PASSED  ]" in result.text and "FAILED" not in result.text


@pytest.mark.runs("multicast-mpi", launch("bcast_by_rank", 5000, 40, 200, RANKS, TUTTI_ALG="bcast=multicast",
                                          TUTTI_LOG="info", TUTTI_FAULT="drop:op=receive:at=2:every=3:count=0"))
@pytest.mark.usefixtures("mpich")
def test_an_mpi_program_broadcasts_by_multicast(result):
    """After a trial that has got through; every third datagram is lost."""
    assert result.status == 0, result.text
    row = json.loads(next(line for line in result.text.splitlines() if line.startswith("{")))
    assert row["errors"] == 0 and row["np"] == RANKS
    assert algorithms(result.text)["bcast"] == {"multicast"}, result.text
    assert "multicast between the nodes: verbs on rxe0" in result.text, result.text
