"""A site's installation with CMake, moved to another folder: libraries and header as pkg-config and find_package find
them, module files, man pages, completion, the command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment

BUILD = ROOT / "build" / "release"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip("there is no build in build/release (make test makes it)")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(folder / "opt" / "tutti")], check=True,
                   capture_output=True)
    return (folder / "opt").rename(folder / "elsewhere") / "tutti"


def run_pi(program: Path) -> None:
    """The example of the C API, as four processes."""
    answer = subprocess.run(["sh", str(ROOT / "tests" / "api" / "run_pi.sh"), str(program)], capture_output=True,
                            text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_layout(prefix):
    for name in ("include/tutti/tutti.h", "lib/libtutti.so", "lib/libtutti-dcp.so", "include/tutti/dcp.h",
                 "include/tutti/dcpf.h", "include/tutti/dcp_f08.f90", "lib/pkgconfig/tutti.pc", "bin/tutti",
                 "lib/cmake/tutti/tutti-config.cmake",
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
    run_pi(program)


PROJECT = """cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(tutti {version} REQUIRED)
add_executable(pi {source})
target_link_libraries(pi PRIVATE tutti::tutti m)
if(NOT TARGET tutti::dcp)
  message(FATAL_ERROR "no target tutti::dcp")
endif()
if(NOT EXISTS "${{tutti_PRELOAD}}")
  message(FATAL_ERROR "no preload at ${{tutti_PRELOAD}}")
endif()
"""


def configure(prefix: Path, folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(PROJECT.format(version=version, source=ROOT / "examples" / "c_api" / "pi.c"))
    return subprocess.run(["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={prefix}"],
                          capture_output=True, text=True, timeout=60, check=False)


def test_find_package_builds_the_example(prefix, tmp_path):
    answer = configure(prefix, tmp_path, "0.1")
    assert answer.returncode == 0, answer.stderr
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True, timeout=60)
    run_pi(tmp_path / "build" / "pi")


def test_find_package_refuses_another_version(prefix, tmp_path):
    answer = configure(prefix, tmp_path, "99.0")
    assert answer.returncode != 0 and "99.0" in answer.stderr


@pytest.mark.parametrize("kind", ["lua", "tcl"])
def test_module_file(prefix, tmp_path, kind):
    """By Lmod, which reads both kinds; where there are both it prefers its own."""
    lmod = next(Path("/usr/share/lmod").glob("*/libexec/lmod"), None)
    if lmod is None:
        pytest.skip("lmod is not installed")
    files = list(prefix.glob("share/modulefiles/tutti/*"))
    assert len(files) == 2 and sum(file.suffix == ".lua" for file in files) == 1
    modules = prefix / "share" / "modulefiles"
    if kind == "tcl":
        moved = tmp_path / "site"
        shutil.copytree(prefix, moved, symlinks=True)
        next(moved.glob("share/modulefiles/tutti/*.lua")).unlink()
        prefix, modules = moved, moved / "share" / "modulefiles"
    script = f'eval "$({lmod} bash load tutti)" && tutti --version && man -w tutti-run && pkg-config --modversion tutti && env'
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False,
                            env=clean_environment(MODULEPATH=str(modules), PYTHONPATH="", CMAKE_PREFIX_PATH="/before"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].startswith("tutti 0.") and lines[1] == str(prefix / "share" / "man" / "man1" / "tutti-run.1")
    assert f"TUTTI_ROOT={prefix}" in lines and f"CMAKE_PREFIX_PATH={prefix}:/before" in lines


def test_man_pages_say_what_help_says(prefix, tutti):
    for command in ("run", "bench coll", "info", "sim"):
        page = (prefix / "share" / "man" / "man1" / f"tutti-{command.replace(' ', '-')}.1").read_text()
        options = set(re.findall(r"--[a-z][a-z-]+", tutti(*command.split(), "--help", env={"COLUMNS": "200"}).out))
        assert options, command
        for option in options:
            assert option.replace("-", "\\-") in page, (command, option)


@pytest.mark.parametrize("words, expected, absent", [
    (["tutti", "be"], "bench", "run"),
    (["tutti", "bench", "o"], "overlap", "coll"),
    (["tutti", "run", "--re"], "--report-json", "--np"),
    (["tutti", "run", "--alg", "allreduce=ring", "--dc"], "--dcp", "--report"),
    (["tutti", "run", "--report", "mkdi"], "mkdir", "--report"),  # any command may be the launcher
])
def test_bash_completes(prefix, words, expected, absent):
    quoted = " ".join(f"'{word}'" for word in words)
    script = (f"source {prefix}/share/bash-completion/completions/tutti; COMP_WORDS=({quoted}); "
              f'COMP_CWORD={len(words) - 1}; _tutti; printf "%s\\n" "${{COMPREPLY[@]}}"')
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert expected in answer.stdout.split() and absent not in answer.stdout.split(), answer.stdout + answer.stderr


def test_command(prefix, tmp_path, fake_launcher):
    environment = clean_environment(PYTHONPATH="")
    answer = subprocess.run([str(prefix / "bin" / "tutti"), "run", str(fake_launcher("mpich")), "-n", "1", "/bin/true"],
                            env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    assert str(prefix / "lib" / "tutti" / "libtutti-preload.so") in answer.stdout


def test_cmake_names_all_that_is_missing(tmp_path):
    """At once, with the packages that have it; what lies elsewhere can be told."""
    answer = subprocess.run(["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-DTUTTI_TESTS=OFF",
                             "-DTUTTI_ZLIB_LIBRARY=TUTTI_ZLIB_LIBRARY-NOTFOUND", "-DTUTTI_SODIUM_INCLUDE=/usr/include",
                             "-DCMAKE_FIND_ROOT_PATH=/nowhere", "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
                             "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY"],
                            capture_output=True, text=True, timeout=60, check=False)
    said = " ".join(answer.stderr.split())
    assert answer.returncode != 0
    assert "apt-get install libhwy-dev libtomlplusplus-dev libfabric-dev libsodium-dev zlib1g-dev" in said, answer.stderr
    assert "zlib 1.2: the header zlib.h and the library z" in said and "libsodium 1.0.18: the library sodium" in said


def test_cmake_warns_of_an_old_library(tmp_path):
    include = tmp_path / "include" / "rdma"
    include.mkdir(parents=True)
    (include / "fi_rma.h").touch()
    (include / "fabric.h").write_text("#define FI_MAJOR_VERSION 1\n#define FI_MINOR_VERSION 6\n")
    answer = subprocess.run(["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), "-DTUTTI_TESTS=OFF",
                             f"-DTUTTI_LIBFABRIC_INCLUDE={include.parent}"], capture_output=True, text=True, timeout=60,
                            check=False)
    assert answer.returncode == 0, answer.stderr
    assert "libfabric 1.6" in answer.stderr and "tested with (1.17)" in answer.stderr, answer.stderr
