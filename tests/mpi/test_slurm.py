"""Under Slurm: srun with both of its protocols, batch scripts with an MPI's own launcher, and what is said where the two do
not fit. Debian's Slurm and Debian's MPIs, on two nodes that are on this machine (slurm.py)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import mpis
import pytest
import slurm

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]
TUTTI = [sys.executable, "-m", "tutti", "run", "--report"]
LOOPBACK = {"TUTTI_NET_INTERFACE": "lo", "TUTTI_MULTICAST": "off"}
# Open MPI's mpirun refuses root without these.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        cluster = slurm.Cluster(tmp_path_factory.mktemp("slurm"))
    except slurm.CannotRun as reason:
        pytest.skip(str(reason))
    yield cluster
    cluster.stop()


def debian(name: str) -> mpis.Mpi:
    description = mpis.ANY[f"{name}-debian"]
    if reason := description.missing():
        pytest.skip(reason)
    return description


def check_taken_over(text: str, place: str) -> None:
    """Four ranks, one world, right results, and tutti's collectives among them."""
    assert text.count("short: passed (0 failures)") == 1, text
    assert re.search(f"tutti: took over the collectives(?: and messages)? of 4 ranks {re.escape(place)}", text), text
    algorithms = re.findall(r"^MPI_Allreduce +(\S+)", text, re.MULTILINE)
    assert algorithms and "MPI" not in algorithms, text


@pytest.mark.parametrize("protocol, name", [("pmi2", "mpich"), ("pmix", "openmpi")])
def test_srun(cluster, program, protocol, name):
    path = program(debian(name), "short.c")
    answer = cluster.run([*TUTTI, "srun", f"--mpi={protocol}", "-N2", "-n4", path])
    assert answer.returncode == 0, answer.stdout
    check_taken_over(answer.stdout, "on one node")  # the two nodes share this machine's memory


@pytest.mark.parametrize("protocol, name", [("pmi2", "mpich"), ("pmix", "openmpi")])
def test_srun_between_nodes(cluster, program, protocol, name):
    """The nodes told apart by Slurm's names of them, so that the network is between them."""
    path = program(debian(name), "short.c")
    answer = cluster.run([*TUTTI, "srun", f"--mpi={protocol}", "-N2", "-n4", "sh", "-c",
                          f"TUTTI_NODE=$SLURMD_NODENAME exec {path}"], **LOOPBACK)
    assert answer.returncode == 0, answer.stdout
    check_taken_over(answer.stdout, "on 2 nodes (network ")


@pytest.mark.parametrize("launcher, name", [
    ("mpiexec.mpich", "mpich"), ("mpirun.openmpi", "openmpi"), ("srun --mpi=pmi2", "mpich")])
def test_batch_script(cluster, program, launcher, name):
    """The launcher learns from Slurm how many ranks there are, and where."""
    path = program(debian(name), "short.c")
    script = cluster.folder / f"job-{launcher.split()[0]}.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH -N2 -n4\n{' '.join(TUTTI)} {launcher} {path}\n")
    output = script.with_suffix(".out")
    answer = cluster.run(["sbatch", "--wait", f"--output={output}", str(script)], **AS_ROOT)
    text = output.read_text() if output.exists() else ""
    assert answer.returncode == 0, answer.stdout + text
    check_taken_over(text, "on one node")


def test_an_mpi_that_does_not_know_the_launcher(cluster, program):
    """Each task becomes a world of its own; that is said once."""
    path = program(debian("mpich"), "short.c")
    answer = cluster.run([*TUTTI[:-1], "srun", "--mpi=none", "-N1", "-n4", path])
    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.count("short: passed (0 failures)") == 4
    said = [line for line in answer.stdout.splitlines() if line.startswith("tutti:")]
    assert len(said) == 1 and "each of the 4 processes is an MPI job of its own" in said[0], answer.stdout


def test_exit_status(cluster):
    answer = cluster.run([*TUTTI[:-1], "srun", "-N1", "-n2", "sh", "-c", "exit 7"])
    assert answer.returncode == 7, answer.stdout


LOOK = """
import json, os
from tutti.where.machines import Machines
with Machines(["n1", "n2", "n9"], os.environ, None, 0) as others:
    print(json.dumps([len(others.look()), others.problems()]))
"""


def test_where_asks_other_nodes_by_srun(cluster):
    with subprocess.Popen(["srun", "-N2", "-n2", "sleep", "100"], env={**os.environ, **cluster.environment}) as job:
        try:
            end = time.monotonic() + 60
            while not (number := cluster.run(["squeue", "-h", "-t", "running", "-n", "sleep", "-o", "%i"]).stdout.strip()):
                assert time.monotonic() < end
                time.sleep(0.1)
            answer = cluster.run([sys.executable, "-c", LOOK], SLURM_JOB_ID=number)
        finally:
            job.terminate()
    looks, problems = json.loads(answer.stdout.splitlines()[-1])
    assert looks == 2 and list(problems) == ["n9"], answer.stdout
    assert problems["n9"].startswith("srun: "), answer.stdout
