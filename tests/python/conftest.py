"""What the tests of the command line share: running it, fake launchers, and the real MPIs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tutti.host import mpis

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from prte import launchers_folder  # noqa: E402, F401

BANNERS = {
    "mpich": "HYDRA build details:\n    Version:                                 5.0.2\n",
    "impi": "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260626 (id: b44796a)\n",
    "openmpi": "mpirun (Open MPI) 5.0.11\n\nReport bugs to ...\n",
    "openmpi4": "mpiexec (OpenRTE) 4.1.4\n",
    "slurm": "slurm 22.05.8\n",
    "flux": "commands:    \t\t0.68.0\nlibflux-core:\t\t0.68.0\nbuild-options:\t\t+hwloc==2.9.0\n",
    "pals": "mpiexec version 1.2.12 (PALS 1.2.12)\n",
    "prrte": "prun (PRRTE) 3.0.5\n",
    "other": "FancyMPI 1.0\n",
}
FAKE = """#!{python}
import json, os, sys
if sys.argv[1:] == ["--version"]:
    print({banner!r})
    sys.exit(0)
print(json.dumps({{"argv": sys.argv[1:], "preload": os.environ.get("LD_PRELOAD"),
                  "tutti": {{n: v for n, v in os.environ.items() if n.startswith("TUTTI_")}}}}))
"""


@dataclass
class Answer:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment without settings of tutti's, so that the tester's own do not matter."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("TUTTI_") and name != "LD_PRELOAD"}
    return {**kept, **extra}


@pytest.fixture
def tutti(tmp_path) -> Callable[..., Answer]:
    """Runs the command line: tutti("run", ..., env={...}, stdin="...")."""

    def run(*arguments: str, env: dict[str, str] | None = None, stdin: str = "", timeout: float = 90) -> Answer:
        answer = subprocess.run([sys.executable, "-m", "tutti", *arguments], env=clean_environment(**(env or {})),
                                input=stdin, capture_output=True, text=True, timeout=timeout, cwd=tmp_path,
                                check=False)
        return Answer(answer.returncode, answer.stdout, answer.stderr)

    return run


@pytest.fixture
def fake_launcher(tmp_path) -> Callable[..., Path]:
    """Makes a launcher that says it belongs to some MPI, and prints as JSON how it was called."""

    def make(kind: str, name: str = "mpiexec") -> Path:
        folder = tmp_path / f"bin-{kind}"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(FAKE.format(python=sys.executable, banner=BANNERS[kind]))
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def executable(tmp_path) -> Callable[..., Path]:
    """Makes a script."""

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return make


def _installed(name: str) -> mpis.Mpi:
    folder = ROOT / ".envs" / name
    mpi = mpis.in_folder(folder)
    if mpi is None:
        pytest.skip(f"{name} is not installed in .envs (make test installs it)")
    return mpi


@pytest.fixture(params=["mpich", "openmpi", "impi"])
def mpi(request) -> mpis.Mpi:
    """Each of the three MPIs that `make test` installs."""
    return _installed(request.param)


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> dict[str, str]:
    """An environment in which compiled benchmark programs are kept for the session only."""
    return {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
