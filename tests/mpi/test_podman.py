"""Rootless Podman: a job inside one container, and a job whose ranks are in two."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mpis
import pytest
from test_containers import LOST, served

sys.path.insert(0, str(mpis.ROOT / "tools"))
import bare_root  # noqa: E402

NOBODY = 65534
MPICH = mpis.MPIS["mpich"]
SETTINGS = {"TUTTI_REPORT": "1", "TUTTI_NET": "off"}


class Podman:
    """Podman as a user without privileges: the caller, or nobody where the caller is root."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []

    def run(self, image: Path, *options: str) -> list[str]:
        """What a command is put behind to run in a container with this root. MPICH meets in /dev/shm; the environment is the
        launcher's."""
        # Debian's crun does not start where control groups have both versions.
        runtime = ["--runtime", shutil.which("runc")] if shutil.which("runc") else []
        return [*self.user, "env", f"HOME={self.home}", f"XDG_RUNTIME_DIR={self.home}", "podman", "--log-level=error",
                "--cgroup-manager=cgroupfs", "--storage-driver=vfs", "--events-backend=file", *runtime, "run", "--rm",
                "--network=host", "--volume=/dev/shm:/dev/shm", "--env-host", *options, "--rootfs", str(image)]


@pytest.fixture(scope="module")
def folder():
    """One that others may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="tutti-podman-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="module")
def podman(folder):
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    home = folder / "home"
    home.mkdir()
    give(home)
    return Podman(home)


@pytest.fixture(scope="module")
def images(folder, podman, program, libraries):
    """Two roots that hold the C library, MPICH, tutti's libraries and a program, all at their places here."""
    compiled = Path(program(MPICH, "reductions.c"))
    made = []
    for name in ("one", "two"):
        root = bare_root.BareRoot(folder / name)
        for part in ("bin", "lib"):
            source = mpis.ENVS / "mpich" / part
            shutil.copytree(source, root.folder / source.relative_to("/"), symlinks=True,
                            ignore=shutil.ignore_patterns("python*"))
        for file in [*mpis.LIBRARIES.glob("libtutti-*.so"), *libraries_of(mpis.ENVS / "mpich" / "lib" / "libmpi.so.12")]:
            root.add(file, file)
        shutil.copy(compiled, root.folder / "program")
        give(root.folder)
        made.append(root.folder)
    tried = subprocess.run([*podman.run(made[0]), str(root.python), "-c", "pass"], capture_output=True, text=True, timeout=60)
    if tried.returncode != 0:
        pytest.skip(f"rootless podman does not run here: {tried.stderr.strip().splitlines()[-1]}")
    return made


def give(folder: Path) -> None:
    """To the user whom Podman runs as."""
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)


def libraries_of(library: Path) -> list[Path]:
    """What the loader finds for it outside of the MPI's own folders."""
    said = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = [Path(word) for word in said.split() if word.startswith("/")]
    return [path for path in found if not path.is_relative_to(mpis.ENVS)]


@pytest.mark.mpi
def test_a_job_inside_one(podman, images):
    """The launcher and the ranks: nothing is lost, cross-memory attach included."""
    variables = [f"{name}={value}" for name, value in {**SETTINGS, "LD_PRELOAD": mpis.preloaded(MPICH, {})}.items()]
    options = [word for variable in variables for word in ("-genv", *variable.split("=", 1))]
    launcher = [*podman.run(images[0]), *MPICH.launcher]
    result = mpis.run([*launcher, *options, "-n", "2", "/program", "0", "served"], {}, limit_s=120)
    assert result.status == 0 and served(result), result.text[-3000:]
    assert LOST not in result.text, result.text[-3000:]


@pytest.mark.mpi
def test_between_two(podman, images):
    """Each rank in a container of its own, the launcher outside. They share memory without a network."""
    settings = [word for name, value in SETTINGS.items() for word in ("--env", f"{name}={value}")]
    preload = ["--env", "LD_PRELOAD=" + mpis.preloaded(MPICH, {})]
    ranks = [[*podman.run(image, *settings, *preload), "/program", "0", "served"] for image in images]
    result = mpis.run([*MPICH.launcher, "-pmi-port", "-n", "1", *ranks[0], ":", "-n", "1", *ranks[1]], {}, limit_s=120)
    assert result.status == 0 and served(result), result.text[-3000:]
    assert result.text.count(LOST) == 1 and "pid namespaces of their own" in result.text, result.text[-3000:]
