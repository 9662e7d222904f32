"""Runs the test suites and adds them up.

    tools/run_tests.py all|quick|SUITE ...

Each suite runs by itself with a time limit and leaves JUnit XML under build/results; the end of the
output lists what was skipped and why, and one line with the totals."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from steps import StepFailed, ended_by_kill_all, kill_all, kill_session, run

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
RESULTS = BUILD / "results"
PYTHON = ROOT / ".venv" / "bin" / "python"

TEST_LIMIT_S = 300    # for one C++ test program, where it sets no limit of its own
CTEST_LIMIT_S = 2000  # beyond the longest of their own
SHOWN_REASONS = 40
SUPPRESSIONS = ROOT / "tests" / "support"
SANITIZER_OPTIONS = {
    "asan": {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
             "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS / 'lsan.supp'}:print_suppressions=0",
             "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"},
    "tsan": {"TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={SUPPRESSIONS / 'tsan.supp'}"},
}


@dataclass
class Outcome:
    """What a suite came to."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)           # names
    skips: list[tuple[str, str]] = field(default_factory=list)  # (name, reason)

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips


def say(text: str) -> None:
    print(text, flush=True)


# ---- JUnit ---------------------------------------------------------------------------------------


def read_junit(path: Path, suite: str) -> Outcome:
    """The cases of a JUnit file, as gtest, ctest and pytest write it. Raises ValueError."""
    outcome = Outcome()
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{path}: {error}") from None
    for case in cases:
        name = f"{suite}: " + "/".join(part for part in (case.get("classname"), case.get("name")) if part)
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            outcome.failures.append(name)
        elif skipped is not None or case.get("result") in ("skipped", "suppressed") or case.get("status") in (
                "disabled", "notrun"):
            reason = (skipped.get("message") or skipped.text or "") if skipped is not None else ""
            outcome.skips.append((name, " ".join(reason.split()) or "no reason given"))
        else:
            outcome.passed += 1
    return outcome


# ---- commands ------------------------------------------------------------------------------------


def run_limited(command: list[str], log: Path, limit_s: float, env: dict[str, str],
                echo: Callable[[str], None] | None = None) -> str | None:
    """Runs a command with a time limit, its output in a log; None on success, else what went wrong."""
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    assert process.stdout is not None
    output = process.stdout

    def pump() -> None:
        with log.open("wb") as sink:
            for raw in output:
                sink.write(raw)
                sink.flush()
                if echo is not None:
                    echo(raw.decode(errors="replace").rstrip("\n"))

    reader = threading.Thread(target=pump, daemon=True)
    reader.start()
    try:
        with ended_by_kill_all(process):
            process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return f"not finished after {limit_s:.0f} s"
    finally:
        kill_session(process)  # whatever it left behind, too
        reader.join(5)
    return None if process.returncode == 0 else f"exit status {process.returncode}"


def show_tail(log: Path, lines: int = 30) -> None:
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        say(f"      {line}")


def processor_seconds() -> float:
    """Of all that this program has run so far, as far as it has been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# ---- suites --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CTest:
    """A test of a build tree, as its CMakeLists.txt describes it."""

    name: str
    labels: frozenset[str]
    alone: bool  # RUN_SERIAL: beside nothing else

    @classmethod
    def of(cls, test: dict) -> CTest:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        return cls(test["name"], frozenset(properties.get("LABELS", ())), bool(properties.get("RUN_SERIAL")))


def list_ctests(build: Path) -> list[CTest]:
    """The tests of a build tree."""
    answer = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True,
                            text=True, check=True)
    return [CTest.of(test) for test in json.loads(answer.stdout)["tests"]]


def run_ctests(suite: str, build: Path, without: dict[str, str], environment: dict[str, str], beside: int) -> Outcome:
    """Every test of a build tree but those of some labels (and why), `beside` at a time, and beside them one of those
    that mostly sleep (label `waits`). What must have the machine for itself comes at the end. Programs made with
    GoogleTest are counted case by case."""
    outcomes: list[Outcome] = []
    total = Outcome()
    tests = []
    for test in list_ctests(build):
        reasons = [why for label, why in without.items() if label in test.labels]
        if reasons:
            total.skips.append((f"{suite}: {test.name}", reasons[0]))
        else:
            tests.append(test)
    together = deque(test for test in tests if not test.alone and "waits" not in test.labels)
    waiting = deque(test for test in tests if not test.alone and "waits" in test.labels)
    alone = deque(test for test in tests if test.alone)

    def run_those(left: deque[CTest]) -> None:
        while left:
            try:
                test = left.popleft()
            except IndexError:  # another thread has taken the last one
                return
            outcomes.append(run_ctest(suite, build, test.name, environment))

    threads = [threading.Thread(target=run_those, args=(left,), daemon=True)
               for left in [waiting] + [together] * beside]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:  # what runs is ended by main()
        waiting.clear()
        together.clear()
        raise
    run_those(alone)
    for outcome in outcomes:
        total.add(outcome)
    if not tests:
        total.failures.append(f"{suite}: the build in {build} has no tests")
    elif len(outcomes) != len(tests):
        total.failures.append(f"{suite}: only {len(outcomes)} of {len(tests)} tests were run")
    return total


def run_ctest(suite: str, build: Path, name: str, environment: dict[str, str]) -> Outcome:
    """One test of a build tree, and the line that tells of it."""
    folder = RESULTS / suite / re.sub(r"\W+", "-", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cases, summary, log = folder / "cases.xml", folder / "ctest.xml", folder / "output.txt"
    started = time.monotonic()
    problem = run_limited(
        ["ctest", "--test-dir", str(build), "-R", f"^{re.escape(name)}$", "--output-junit", str(summary),
         "--no-tests=error", "--timeout", str(TEST_LIMIT_S), "--verbose"],
        log, CTEST_LIMIT_S, {**os.environ, **environment, "GTEST_OUTPUT": f"xml:{cases}"})
    outcome = _outcome_of(suite, name, cases if cases.exists() else summary, problem)
    counts = f"{outcome.passed} passed" + (f", {len(outcome.skips)} skipped" if outcome.skips else "")
    verdict = "ok    " if not outcome.failures else "FAILED"
    say(f"  {verdict} {suite} {name}: {counts} ({time.monotonic() - started:.1f} s)")
    for failure in outcome.failures:
        say(f"      {failure}")
    if outcome.failures:
        show_tail(log)
    return outcome


def _outcome_of(suite: str, name: str, results: Path, problem: str | None) -> Outcome:
    try:
        outcome = read_junit(results, f"{suite}: {name}")
    except ValueError as error:
        outcome = Outcome(failures=[f"{suite}: {name}: {error}"])
    if problem is not None and not outcome.failures:
        outcome.failures.append(f"{suite}: {name}: {problem}")  # died after its cases, or before
    if not (outcome.passed or outcome.failures or outcome.skips):
        outcome.failures.append(f"{suite}: {name}: it has no cases")
    return outcome


def core_suite(quick: bool) -> Outcome:
    """The C++ tests, as released."""
    without, environment = ({"slow": "takes long"}, {"TEST_LEVEL": "0"}) if quick else ({}, {})
    return run_ctests("core", BUILD / "release", without, environment, beside=2)


def sanitizer_suite(preset: str) -> Outcome:
    """The C++ tests built with a sanitizer."""
    build = BUILD / preset
    configure = ["cmake", "--preset", preset]
    try:
        run(f"{preset}: configure", configure, BUILD / "logs" / f"configure-{preset}.log", cwd=ROOT)
        run(f"{preset}: build", ["cmake", "--build", str(build), "--target", "tutti_tests"],
            BUILD / "logs" / f"build-{preset}.log", cwd=ROOT)
    except StepFailed as failure:
        say(str(failure))
        return Outcome(failures=[f"{preset}: it does not build"])
    without = {"unsanitized": "links an MPI, which is not sanitized"}
    if preset == "tsan":
        without["one_thread"] = "all ranks are simulated by one thread"
    return run_ctests(preset, build, without, SANITIZER_OPTIONS[preset], beside=1)


def pytest_suite(name: str, folder: str, limit_s: float, marked: str, *more: str) -> Outcome:
    """`marked`: which tests, as an expression of pytest's about their marks; empty: all."""
    results, log = RESULTS / f"{name}.xml", RESULTS / f"{name}.txt"
    results.unlink(missing_ok=True)
    command = [str(PYTHON), "-m", "pytest", folder, "-v", "--tb=short", "--color=no", f"--junitxml={results}",
               "-p", "no:cacheprovider"]
    command += [*more, *(["-m", marked] if marked else [])]

    def echo(line: str) -> None:
        if re.search(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)", line) or line.startswith(("E ", "tests/")):
            say(f"  {line}")

    problem = run_limited(command, log, limit_s, dict(os.environ), echo)
    outcome = _outcome_of(name, folder, results, problem)
    if outcome.failures:
        show_tail(log, 80)
    return outcome


def _at_a_time(tests: int, dist: str = "worksteal") -> tuple[str, ...]:
    return ("-n", str(tests), "--dist", dist)


def mpi_suite(_quick: bool) -> Outcome:
    """Several tests at a time: one alone keeps much less than one processor busy, since most of it is starting, ending and
    waiting for networks. Not those that start a crowd, beside which others would not end in time."""
    outcome = pytest_suite("mpi", "tests/mpi", 2700, "not long and not crowd", "-k", "not mpi4py", *_at_a_time(2))
    outcome.add(pytest_suite("crowds", "tests/mpi", 900, "crowd and not long"))
    return outcome


SUITES: dict[str, Callable[[bool], Outcome]] = {
    "core": core_suite,
    "mpi": mpi_suite,
    # By files: those that build something do it once.
    "python": lambda quick: pytest_suite("python", "tests/python", 900, "not slow" if quick else "",
                                         *_at_a_time(2, "loadfile")),
    "lab": lambda quick: pytest_suite("lab", "tests/lab", 900, "", *_at_a_time(2)),
    "verbs": lambda quick: pytest_suite("verbs", "tests/verbs-vm", 1800, "", "--timeout=1700"),
    "mpi4py": lambda quick: pytest_suite("mpi4py", "tests/mpi", 5400, "", "-k", "mpi4py"),
    "repeats": lambda quick: pytest_suite("repeats", "tests/mpi", 5400, "long"),
    "asan": lambda quick: sanitizer_suite("asan"),
    "tsan": lambda quick: sanitizer_suite("tsan"),
}
QUICK = ("core", "python")
ALL = ("core", "mpi", "python", "lab", "verbs")
# Suites that take longer than all the others together: by name.
LONG = ("mpi4py", "repeats", "asan", "tsan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="+", choices=["all", "quick", *SUITES], metavar="SUITE",
                        help=f"all, quick, or some of {', '.join(SUITES)}")
    asked = parser.parse_args().suites
    quick = asked == ["quick"]
    names = list(QUICK) if quick else list(ALL) if "all" in asked else asked
    RESULTS.mkdir(parents=True, exist_ok=True)
    started, total = time.monotonic(), Outcome()
    try:
        for name in names:
            say(f"suite {name}")
            suite_started, used = time.monotonic(), processor_seconds()
            outcome = SUITES[name](quick)
            total.add(outcome)
            seconds, used = time.monotonic() - suite_started, processor_seconds() - used
            say(f"suite {name}: {outcome.passed} passed, {len(outcome.failures)} failed, "
                f"{len(outcome.skips)} skipped ({seconds:.0f} s, {used / seconds:.1f} processors busy)\n")
    except KeyboardInterrupt:
        kill_all()
        say("interrupted")
        return 130
    for name in LONG:
        if name not in names:
            total.skips.append((f"suite {name}", f"takes long and is run by itself: make test-{name}"))
    summarise(total, time.monotonic() - started)
    return 1 if total.failures or not total.passed else 0


def summarise(total: Outcome, seconds: float) -> None:
    """The end of the output: failures, skips by reason, totals."""
    if total.failures:
        say("failed:")
        for name in total.failures:
            say(f"  {name}")
    if total.skips:
        say("skipped:")
        reasons: dict[str, list[str]] = {}
        for name, reason in total.skips:
            reasons.setdefault(reason, []).append(name)
        for reason, skipped in sorted(reasons.items(), key=lambda item: -len(item[1]))[:SHOWN_REASONS]:
            more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
            say(f"  {skipped[0]}{more}: {reason}")
    say(f"\nall suites took {seconds:.0f} s; logs and results are in {RESULTS.relative_to(ROOT)}")
    say(f"{total.passed} passed, {len(total.failures)} failed, {len(total.skips)} skipped")


if __name__ == "__main__":
    sys.exit(main())
