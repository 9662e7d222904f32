"""The wheel: built by its tool, installed where there is nothing but Python, and used there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT, clean_environment

sys.path.insert(0, str(ROOT / "tools"))
import bare_root  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
WHEELHOUSE = ROOT / "build" / "wheelhouse"
ENVIRONMENT = "/opt/env"


def download(*names: str) -> None:
    """Wheels from the package index, kept between runs. Skips the test where there is no index."""
    wanted = WHEELHOUSE / f"{'-'.join(names)}-{sys.version_info.major}.{sys.version_info.minor}"
    if wanted.exists():
        return
    WHEELHOUSE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
               "--dest", str(WHEELHOUSE), *names]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if answer.returncode != 0:
        pytest.skip(f"no wheels of {', '.join(names)} can be had ({answer.stderr.strip().splitlines()[-1]})")
    wanted.touch()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not (ROOT / "build" / "release" / "installed").exists():
        pytest.skip("there is no build in build/release (make test makes it)")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, str(ROOT / "tools" / "wheel.py"), "--output", str(folder)], check=True, timeout=110,
                   env=clean_environment(), capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def root(wheel, tmp_path_factory):
    """A root with Python, the wheel and MPICH's wheel in an environment."""
    reason = bare_root.reason_against()
    if reason:
        pytest.skip(reason)
    download("pip", "typer", "rich", "mpich")
    root = bare_root.BareRoot(tmp_path_factory.mktemp("bare") / "root")
    wheels = root.folder / "wheels"
    wheels.mkdir()
    for file in [wheel, *WHEELHOUSE.glob("*.whl")]:
        (wheels / file.name).write_bytes(file.read_bytes())
    pip = f"/wheels/{next(wheels.glob('pip-*.whl')).name}/pip"
    for words in ([str(root.python), "-m", "venv", "--without-pip", ENVIRONMENT],
                  [f"{ENVIRONMENT}/bin/python", pip, "install", "--no-index", "--no-compile", "--find-links", "/wheels",
                   "tutti-mpi", "mpich"]):
        answer = root.run(words)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    return root


def in_root(root, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return root.run(list(words), path=f"{ENVIRONMENT}/bin", timeout=timeout)


def test_its_name_says_where_it_runs(wheel):
    assert re.fullmatch(r"tutti_mpi-[\d.]+-cp3\d+-(cp3\d+|abi3)-manylinux_2_\d+_x86_64\.whl", wheel.name), wheel.name
    if sys.version_info >= (3, 12):
        assert "-cp312-abi3-" in wheel.name


def test_it_has_what_is_needed_and_nothing_of_the_system(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    for name in ("tutti/lib/libtutti-preload.so", "tutti/lib/libtutti-mpi-mpich.so", "tutti/lib/libtutti-mpi-abi.so",
                 "tutti/lib/libtutti-mpi-openmpi.so", "tutti/lib/tutti-dcp", "tutti/lib/tutti-keep",
                 "tutti/profiles/infiniband.toml"):
        assert name in names, name
    assert not [name for name in names if ".libs/" in name or "/test" in name]


def test_the_root_is_bare(root):
    """Or the tests below would show nothing."""
    for name in ("gcc", "cc", "sh", "pkg-config", "apt-get"):
        assert not (root.folder / "usr" / "bin" / name).exists(), name
    assert not list(root.folder.glob("usr/lib/**/libstdc++*")) and not list(root.folder.glob("usr/lib/**/libsodium*"))


def test_info(root):
    answer = in_root(root, "tutti", "info", "--json")
    assert answer.returncode == 0, answer.stderr
    state = json.loads(answer.stdout)
    assert all(library["present"] for library in state["libraries"])
    assert {mpi["product"] for mpi in state["mpis"]} == {"MPICH"}
    assert {fabric["name"] for fabric in state["fabrics"]} >= {"shm", "ofi"}


def test_a_job_runs(root):
    compiler = ROOT / ".envs" / "mpich" / "bin" / "mpicc"
    if not compiler.exists():
        pytest.skip("no MPICH in .envs to compile the program with (make test installs it)")
    program = root.folder / "root" / "short"
    subprocess.run([str(compiler), str(ROOT / "tests" / "mpi" / "programs" / "short.c"), "-o", str(program),
                    f"-Wl,-rpath,{ENVIRONMENT}/lib"], check=True, timeout=60)
    answer = in_root(root, "tutti", "run", "--report", "mpiexec", "-n", "2", "/root/short")
    assert answer.returncode == 0 and "FAILED" not in answer.stdout, answer.stdout + answer.stderr
    assert re.search(r"^MPI_Allreduce +(?!left)\S", answer.stderr, re.MULTILINE), answer.stderr


def test_benchmarks_need_no_compiler(root):
    """The programs come with the wheel."""
    answer = in_root(root, "tutti", "bench", "coll", "--mpi", "mpich=" + ENVIRONMENT, "--op", "allreduce", "--sizes", "8",
                     "--rounds", "1", "--json", "/root/rows.json", timeout=100)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    rows = json.loads((root.folder / "root" / "rows.json").read_text())
    assert {row["tutti"] for row in rows} == {True, False} and all(row["us"] > 0 for row in rows)
