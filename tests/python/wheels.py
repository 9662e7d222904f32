"""Wheels in bare roots: what the tests of the wheel for this machine and of those for others share."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT

ENVIRONMENT = "/opt/env"
NEEDED = ("pip", "typer", "rich", "mpich")  # beside tutti's own wheel


def download(folder: Path, platform: str = "", version: str = f"{sys.version_info.major}.{sys.version_info.minor}") -> None:
    """What a root needs from the package index, kept in `folder` between runs; for this machine, or for a platform. Skips the
    test where there is no index."""
    complete = folder / "complete"
    if complete.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
               "--python-version", version, "--dest", str(folder), *(("--platform", platform) if platform else ()), *NEEDED]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if answer.returncode != 0:
        pytest.skip(f"no wheels of {', '.join(NEEDED)} can be had ({answer.stderr.strip().splitlines()[-1]})")
    complete.touch()


def install(root, wheels: Iterator[Path], timeout: float) -> None:
    """Makes an environment in the root, with tutti and MPICH of these wheels."""
    folder = root.folder / "wheels"
    folder.mkdir()
    for file in wheels:
        (folder / file.name).write_bytes(file.read_bytes())
    pip = f"/wheels/{next(folder.glob('pip-*.whl')).name}/pip"
    for words in ([str(root.python), "-m", "venv", "--without-pip", ENVIRONMENT],
                  [f"{ENVIRONMENT}/bin/python", pip, "install", "--no-index", "--no-compile", "--find-links", "/wheels",
                   "tutti-mpi", "mpich"]):
        answer = root.run(words, timeout=timeout)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def in_root(root, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return root.run(list(words), path=f"{ENVIRONMENT}/bin", timeout=timeout)


def check_bare(root) -> None:
    """Or the other checks would show nothing."""
    for name in ("gcc", "cc", "sh", "pkg-config", "apt-get"):
        assert not (root.folder / "usr" / "bin" / name).exists(), name
    assert not list(root.folder.glob("usr/lib/**/libstdc++*")) and not list(root.folder.glob("usr/lib/**/libsodium*"))


def check_info(root, timeout: float = 60) -> None:
    answer = in_root(root, "tutti", "info", "--json", timeout=timeout)
    assert answer.returncode == 0, answer.stderr
    state = json.loads(answer.stdout)
    assert all(library["present"] for library in state["libraries"])
    assert {mpi["product"] for mpi in state["mpis"]} == {"MPICH"}
    assert {fabric["name"] for fabric in state["fabrics"]} >= {"shm", "ofi"}


def check_job(root, compile_c: Callable[[Path, Path], None], timeout: float = 60, options: tuple[str, ...] = ()) -> None:
    """`compile_c(source, program)` compiles for the MPI in the root; `options`: of its launcher."""
    program = root.folder / "root" / "short"
    compile_c(ROOT / "tests" / "mpi" / "programs" / "short.c", program)
    answer = in_root(root, "tutti", "run", "--report", "mpiexec", *options, "-n", "2", "/root/short", timeout=timeout)
    assert answer.returncode == 0 and "FAILED" not in answer.stdout, answer.stdout + answer.stderr
    assert re.search(r"^MPI_Allreduce +(?!left)\S", answer.stderr, re.MULTILINE), answer.stderr


def check_benchmark(root, timeout: float = 100) -> None:
    """Its programs come with the wheel: there is no compiler."""
    answer = in_root(root, "tutti", "bench", "coll", "--mpi", "mpich=" + ENVIRONMENT, "--op", "allreduce", "--sizes", "8",
                     "--rounds", "1", "--json", "/root/rows.json", timeout=timeout)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    rows = json.loads((root.folder / "root" / "rows.json").read_text())
    assert {row["tutti"] for row in rows} == {True, False} and all(row["us"] > 0 for row in rows)
