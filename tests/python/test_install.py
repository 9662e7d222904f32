"""A site's installation with CMake: libraries, header, pkg-config's file, command."""

import os
import shutil
import subprocess

import pytest
from conftest import ROOT, clean_environment

BUILD = ROOT / "build" / "release"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip("there is no build in build/release (make test makes it)")
    prefix = tmp_path_factory.mktemp("site") / "opt" / "tutti"
    subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


def test_layout(prefix):
    for name in ("include/tutti/tutti.h", "lib/libtutti.so", "lib/pkgconfig/tutti.pc", "bin/tutti",
                 "lib/tutti/libtutti-preload.so", "lib/tutti/libtutti-mpi-mpich.so", "lib/tutti/libtutti-mpi-abi.so",
                 "lib/tutti/libtutti-mpi-openmpi.so"):
        assert (prefix / name).exists(), name
    assert not list(prefix.glob("lib/tutti/lib/*")), "the wheel's files are not the site's"


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
def test_pkg_config_builds_the_example(prefix, tmp_path):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tutti"], env=environment, capture_output=True,
                           text=True, check=True).stdout.split()
    program = tmp_path / "pi"
    subprocess.run(["cc", str(ROOT / "examples" / "c_api" / "pi.c"), "-o", str(program), *flags,
                    f"-Wl,-rpath,{prefix / 'lib'}", "-lm"], check=True)
    answer = subprocess.run(["sh", str(ROOT / "tests" / "api" / "run_pi.sh"), str(program)], capture_output=True,
                            text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_command(prefix, tmp_path, fake_launcher):
    environment = clean_environment(PYTHONPATH="")
    answer = subprocess.run([str(prefix / "bin" / "tutti"), "run", str(fake_launcher("mpich")), "-n", "1", "/bin/true"],
                            env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    assert str(prefix / "lib" / "tutti" / "libtutti-preload.so") in answer.stdout
