"""The preload: what it needs and exports, and that it does no harm where something is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import mpis
import pytest

ALL = list(mpis.MPIS)


def readelf(option: str, path: Path) -> str:
    return subprocess.run(["readelf", option, "-W", str(path)], check=True, capture_output=True, text=True).stdout


def exported(path: Path) -> set[str]:
    rows = [line.split() for line in readelf("--dyn-syms", path).splitlines()]
    return {row[7].split("@")[0] for row in rows
            if len(row) > 7 and row[3] == "FUNC" and row[4] in ("GLOBAL", "WEAK") and row[6] != "UND"}


def test_generated_files_are_current():
    done = subprocess.run([sys.executable, str(mpis.ROOT / "tools" / "gen_mpi.py"), "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_preload_needs_only_libc(libraries):
    needed = [line for line in readelf("-d", libraries / "libtutti-preload.so").splitlines() if "NEEDED" in line]
    assert len(needed) == 1, needed
    assert "libc.so.6" in needed[0]


def test_plugins_bring_their_own_libraries(libraries):
    allowed = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux", "libgcc_s.so.1")
    for abi in ("mpich", "abi", "openmpi"):
        path = libraries / f"libtutti-mpi-{abi}.so"
        needed = [line for line in readelf("-d", path).splitlines() if "NEEDED" in line]
        assert all(any(name in line for name in allowed[:5]) for line in needed), needed
        assert exported(path) == {"tutti_mpi_attach", "tutti_mpi_ending"}


def test_preload_exports_pairs_and_no_version_functions(libraries):
    names = exported(libraries / "libtutti-preload.so")
    assert {"MPI_Allreduce", "PMPI_Allreduce", "MPI_Allreduce_c", "MPI_Init", "PMPI_Init_thread"} <= names
    assert names == {f"P{name}" for name in names if name.startswith("MPI_")} | \
        {name for name in names if name.startswith("MPI_")}
    forbidden = {"MPI_Get_version", "MPI_Get_library_version"}
    assert not forbidden & names
    assert not any(name.startswith("MPI_Abi") for name in names)


@pytest.mark.parametrize("abi,mpi", [("mpich", "mpich"), ("standard", "mpich-abi"), ("openmpi", "openmpi"),
                                     ("openmpi", "openmpi-debian")])
def test_abi_description_agrees_with_mpi_h(abi, mpi, tmp_path):
    description = mpis.MPIS[mpi]
    if reason := description.missing():
        pytest.skip(reason)
    source = Path(__file__).parent / "generated" / f"check_{abi}.c"
    done = subprocess.run([str(description.compiler), "-w", "-o", str(tmp_path / "check"), str(source), "-ldl"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = subprocess.run([str(tmp_path / "check")], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_harmless_without_mpi(libraries):
    done = subprocess.run([sys.executable, "-c", "print('fine')"], capture_output=True, text=True,
                          env={**os.environ, "LD_PRELOAD": str(mpis.preload())})
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_disabled(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 2, [program(description, "requests.c")], True,
                        {"TUTTI_DISABLE": "1", "TUTTI_REPORT": "1"})
    assert result.status == 0
    assert "tutti" not in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("settings,words", [({"TUTTI_RINGS": "1"}, "TUTTI_RING"), ({"TUTTI_RING": "many"}, "TUTTI_RING"),
                                            ({"TUTTI_ALG": "allreduce=magic"}, "magic")])
@pytest.mark.parametrize("mpi", ALL)
def test_bad_settings_give_one_line_and_the_own_mpi(program, libraries, mpi, settings, words):
    description = mpis.MPIS[mpi]
    result = mpis.start(description, 2, [program(description, "requests.c")], True, settings)
    assert result.status == 0, result.text
    assert "requests: passed" in result.text
    lines = [line for line in result.text.splitlines() if line.startswith("tutti")]
    assert any(words in line for line in lines), result.text
    assert any("own MPI" in line for line in lines), result.text


@pytest.mark.mpi
def test_fault_tolerance_is_left_to_the_mpi(program, libraries):
    """A program that revokes communicators needs every call in its MPI."""
    mpi = mpis.MPIS["openmpi"]
    result = mpis.start(mpi, 2, [program(mpi, "requests.c")], True, {"OMPI_MCA_mpi_ft_enable": "1"})
    assert result.status == 0, result.text
    assert "requests: passed" in result.text
    assert result.text.count("fault tolerance (--with-ft)") == 1, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{}, {"TUTTI_P2P": "1"}, {"TUTTI_DCP": "1", "TUTTI_DCP_FROM_JOB": "1"}])
def test_revoked_communicators_are_refused(program, libraries, settings):
    """What the MPI refuses by itself is refused with tutti, and the other communicators go on."""
    mpi = mpis.MPIS["openmpi"]
    served = mpis.start(mpi, 4 + ("TUTTI_DCP" in settings), [program(mpi, "revoke.c")], True, {**settings, "TUTTI_REPORT": "1"})
    assert served.status == 0, served.text
    assert "revoke: passed" in served.text
    assert any(call == "MPI_Allreduce" and "native" not in how for call, how in served.rows()), served.text


def test_revoking_is_exported_apart(libraries):
    """Programs that look for it must find it only where the MPI has it."""
    assert exported(libraries / "libtutti-revoke.so") == {"MPIX_Comm_revoke", "tutti_set_revoked"}


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_missing_plugin(program, libraries, mpi, tmp_path):
    """The preload alone: every rank says so, and the program runs on its own MPI."""
    description = mpis.MPIS[mpi]
    lonely = tmp_path / "libtutti-preload.so"
    shutil.copy(mpis.preload(), lonely)
    result = mpis.start(description, 2, ["env", f"LD_PRELOAD={lonely}", program(description, "requests.c")], False)
    assert result.status == 0, result.text
    assert "requests: passed" in result.text
    assert "cannot load" in result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_one_rank_misses_its_plugin(program, libraries, mpi, first, tmp_path):
    """The others do not wait for it, and the program runs on its own MPI."""
    description = mpis.MPIS[mpi]
    path = program(description, "requests.c")
    lonely = tmp_path / "libtutti-preload.so"
    shutil.copy(mpis.preload(), lonely)
    plain = ["env", *[f"{name}={value}" for name, value in description.environment.items()]]
    parts = [["-n", "1", *plain, f"LD_PRELOAD={preload}", path] for preload in (lonely, mpis.preload())]
    one, other = parts if first else reversed(parts)
    result = mpis.run([*description.launcher, *one, ":", *other], description.environment)
    assert result.status == 0, result.text
    assert "requests: passed (0 failures)" in result.text
    assert result.text.count("cannot load") == 1, result.text
    assert result.text.count("another rank could not load tutti") == (0 if first else 1), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_mixed_job(program, libraries, mpi):
    """One rank without the preload: all use their own MPI, and one line says why."""
    description = mpis.MPIS[mpi]
    path = program(description, "requests.c")
    plain = ["env", *[f"{name}={value}" for name, value in description.environment.items()]]
    served = [*plain, f"LD_PRELOAD={mpis.preload()}"]
    result = mpis.run([*description.launcher, "-n", "1", *served, path, ":", "-n", "1", *plain, path],
                      description.environment)
    assert result.status == 0, result.text
    assert "requests: passed (0 failures)" in result.text
    assert result.text.count("run without tutti") == 1, result.text


def look_slowly(program, tmp_path, mpi: str, settings: list[str], plain: bool) -> mpis.Result:
    """Two ranks of which one looks late, or not at all, and a third, which may be without tutti."""
    description = mpis.MPIS[mpi]
    slow = tmp_path / "libslow_look.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(slow), str(mpis.PROGRAMS / "slow_look.c"), "-ldl"], check=True)
    path = program(description, "requests.c")
    own = [f"{name}={value}" for name, value in description.environment.items()]
    served = ["env", *own, *settings, "TUTTI_REPORT=1", f"LD_PRELOAD={mpis.preload()}:{slow}", path]
    third = ["env", *own, path] if plain else served
    result = mpis.run([*description.launcher, "-n", "2", *served, ":", "-n", "1", *third], description.environment, limit_s=60)
    assert result.status == 0, result.text
    assert result.text.count("requests: passed (0 failures)") == 1, result.text
    return result


@pytest.mark.mpi
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("plain", [False, True], ids=["served", "mixed"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_however_late_a_rank_is_all_decide_the_same(program, libraries, mpi, plain, late, tmp_path):
    """One of three loses 5 s between the MPI's MPI_Init and its look at the others of its node."""
    begin = time.monotonic()
    result = look_slowly(program, tmp_path, mpi, [f"LATE_RANK={late}", "LATE_S=5"], plain)
    assert time.monotonic() - begin >= 5
    assert result.text.count("1 of the 3 ranks of this node run without tutti") == int(plain), result.text
    assert any(not how.startswith("MPI (") for _, how in result.rows()) is not plain, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_a_rank_that_cannot_look_lets_nobody_wait(program, libraries, mpi, tmp_path):
    """It does not take its own blindness for the absence of the others, who have seen it."""
    result = look_slowly(program, tmp_path, mpi, ["LATE_RANK=1", "BLIND=1"], False)
    assert result.text.count("cannot look whether 3 of the 3 ranks of this node run with tutti") == 1, result.text
    assert "run without tutti" not in result.text
    assert all(how.startswith("MPI (") for _, how in result.rows()), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ALL)
def test_different_settings(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    path = program(description, "requests.c")
    plain = ["env", *[f"{name}={value}" for name, value in description.environment.items()],
             f"LD_PRELOAD={mpis.preload()}"]
    result = mpis.run([*description.launcher, "-n", "1", *plain, path, ":", "-n", "1", *plain, "TUTTI_RING=2M", path],
                      description.environment)
    assert result.status == 0, result.text
    assert "requests: passed (0 failures)" in result.text
    assert result.text.count("different settings") == 1, result.text
