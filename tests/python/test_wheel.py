"""The wheel: built by its tool, installed where there is nothing but Python, and used there."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile

import pytest
import wheels
from conftest import ROOT, clean_environment

sys.path.insert(0, str(ROOT / "tools"))
import bare_root  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
WHEELHOUSE = ROOT / "build" / "wheelhouse"


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
    wheels.download(WHEELHOUSE)
    root = bare_root.BareRoot(tmp_path_factory.mktemp("bare") / "root")
    wheels.install(root, [wheel, *WHEELHOUSE.glob("*.whl")], timeout=120)
    return root


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
    wheels.check_bare(root)


def test_info(root):
    wheels.check_info(root)


def test_a_job_runs(root):
    compiler = ROOT / ".envs" / "mpich" / "bin" / "mpicc"
    if not compiler.exists():
        pytest.skip("no MPICH in .envs to compile the program with (make test installs it)")

    def compile_c(source, program):
        subprocess.run([str(compiler), str(source), "-o", str(program), f"-Wl,-rpath,{wheels.ENVIRONMENT}/lib"], check=True,
                       timeout=60)

    wheels.check_job(root, compile_c)


def test_benchmarks_need_no_compiler(root):
    wheels.check_benchmark(root)
