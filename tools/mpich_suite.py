"""MPICH's own tests (test/mpi of its sources), alone and with tutti: what passes by itself passes with tutti, too.

make test-mpich SOURCE=FOLDER [SUITE="--parts pt2pt,coll --settings TUTTI_P2P=1"]

The sources are MPICH's: a release, or `apt-get source mpich`. They are built against .envs/mpich in build/mpich-suite,
a part at a time. A test that fails or hangs without tutti says nothing, and is listed as such."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MPI = ROOT / ".envs" / "mpich"
BUILD = ROOT / "build" / "mpich-suite"
PRELOAD = ROOT / "build" / "release" / "src" / "mpi" / "libtutti-preload.so"
# Those that tutti has to do with. Without languages that the wheel of MPICH has no compiler for.
PARTS = ("pt2pt", "coll", "comm", "topo", "attr", "errhan", "init", "group", "info")
LIMIT_S = 180


@dataclass(frozen=True)
class Test:
    """A line of a testlist: PROGRAM RANKS [arg=...] [env=NAME=VALUE] [timeLimit=S] [resultTest=NAME] ..."""

    part: str
    program: str
    ranks: int
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(hash=False)
    limit_s: float
    judged_by_status: bool  # it says nothing of errors

    @property
    def name(self) -> str:
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([f"{self.part}/{self.program}", f"-n {self.ranks}", *self.arguments, *settings])


def parse(part: str, line: str) -> Test | None:
    words = line.split()
    if len(words) < 2 or words[0].startswith("#") or not words[1].isdigit():
        return None
    options = [word.partition("=")[::2] for word in words[2:]]
    environment = dict(value.partition("=")[::2] for name, value in options if name == "env")
    limits = [float(value) for name, value in options if name == "timeLimit"]
    return Test(part, words[0], int(words[1]), tuple(value for name, value in options if name == "arg"), environment,
                max([LIMIT_S, *limits]), any(name == "resultTest" for name, _ in options))


def tests_of(part: str, source: Path) -> Iterator[Test]:
    """Those that could be built."""
    lists = [file for file in (BUILD / part / "testlist", source / part / "testlist") if file.exists()]
    for line in lists[0].read_text().splitlines() if lists else []:
        test = parse(part, line)
        if test is not None and (BUILD / part / test.program).exists():
            yield test


def build(source: Path, parts: list[str]) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / "build.log"
    with log.open("ab") as out:
        if not (BUILD / "Makefile").exists():
            options = ["--disable-fortran", "--disable-f77", "--disable-fc", "--disable-cxx"]
            words = [source / "configure", f"--with-mpi={MPI}", f"CC={MPI / 'bin' / 'mpicc'}", *options]
            if subprocess.run(words, cwd=BUILD, stdout=out, stderr=out).returncode != 0:
                sys.exit(f"tutti: MPICH's tests cannot be configured, see {log}")
        for part in ["util", "dtpools", *parts]:
            # Tests of what this MPI lacks do not compile, and are left out.
            for goal in (["all"], ["check", "TESTS="]):
                subprocess.run(["make", "-k", f"-j{os.cpu_count()}", "-C", part, *goal], cwd=BUILD, stdout=out, stderr=out)


def passes(test: Test, preloaded: dict[str, str]) -> bool:
    words = [str(MPI / "bin" / "mpiexec"), "-n", str(test.ranks)]
    for name, value in preloaded.items():
        words += ["-genv", name, value]
    process = subprocess.Popen([*words, f"./{test.program}", *test.arguments], cwd=BUILD / test.part,
                               env=os.environ | test.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        said, _ = process.communicate(timeout=test.limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    return process.returncode == 0 if test.judged_by_status else b"No Errors" in said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="MPICH's sources")
    parser.add_argument("--parts", default=",".join(PARTS), help="folders of test/mpi, default: %(default)s")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="tutti's, for the run with it")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="tests that run at the same time")
    options = parser.parse_args()
    source = options.source.resolve() / "test" / "mpi"
    if not (source / "configure").exists():
        sys.exit(f"tutti: {source}/configure does not exist: SOURCE must be the folder of MPICH's sources, of a release")
    parts = options.parts.split(",")
    build(source, parts)
    tests = [test for part in parts for test in tests_of(part, source)]
    preloaded = {"LD_PRELOAD": str(PRELOAD), **dict(setting.partition("=")[::2] for setting in options.settings)}

    def judge(test: Test) -> tuple[bool, bool]:
        result = passes(test, {}), passes(test, preloaded)
        alone, with_tutti = ("pass" if passed else "fail" for passed in result)
        print(f"{alone} alone, {with_tutti} with tutti: {test.name}", flush=True)
        return result

    with ThreadPoolExecutor(options.at_once) as pool:
        results = dict(zip(tests, pool.map(judge, tests), strict=True))
    lost = [test.name for test, (alone, with_tutti) in results.items() if alone and not with_tutti]
    neither = [test.name for test, (alone, _) in results.items() if not alone]
    print(f"\n{len(results)} tests: {sum(with_tutti for _, with_tutti in results.values())} pass with tutti; "
          f"{len(neither)} fail without it; lost by it: {len(lost)}")
    for name in lost:
        print("lost:", name)
    sys.exit(1 if lost or not results else 0)


if __name__ == "__main__":
    main()
