"""Runs commands as named steps: progress and elapsed time while they work, the log's tail when
they fail. Only the standard library, because it runs before anything is installed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TAIL_LINES = 40
HEARTBEAT_S = 15.0  # between progress lines when standard error is not a terminal


class StepFailed(Exception):
    """A step failed; the message is ready to be shown."""


class Console:
    """Standard error, shared by steps that run at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tty = sys.stderr.isatty()
        self._start = time.monotonic()
        self._active: dict[str, tuple[float, str]] = {}
        self._last_beat = self._start

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        with self._lock:
            self._erase()
            sys.stderr.write(f"{self._clock()} {text}\n")
            self._draw()

    def begin(self, title: str) -> None:
        self.line(f"{title} ...")
        with self._lock:
            self._active[title] = (time.monotonic(), "")
            self._draw()

    def update(self, title: str, detail: str) -> None:
        """Says how far a running step has come; shown at the terminal's pace, not the caller's."""
        with self._lock:
            if title in self._active:
                self._active[title] = (self._active[title][0], detail)

    def end(self, title: str, outcome: str) -> None:
        with self._lock:
            started, _ = self._active.pop(title, (time.monotonic(), ""))
        self.line(f"{title}: {outcome} ({time.monotonic() - started:.0f} s)")

    def tick(self) -> None:
        """Redraws; called a few times a second while steps run."""
        with self._lock:
            if self._tty:
                self._erase()
                self._draw()
            elif self._active and time.monotonic() - self._last_beat > HEARTBEAT_S:
                self._last_beat = time.monotonic()
                sys.stderr.write(f"{self._clock()}   {self._summary(120)}\n")
                sys.stderr.flush()

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._start)
        return f"[{seconds // 60:2d}:{seconds % 60:02d}]"

    def _summary(self, width: int) -> str:
        now = time.monotonic()
        parts = []
        for title, (started, detail) in self._active.items():
            parts.append(f"{title} {now - started:.0f} s" + (f": {detail}" if detail else ""))
        text = " | ".join(parts)
        return text if len(text) <= width else text[: width - 1] + "…"

    def _erase(self) -> None:
        if self._tty:
            sys.stderr.write("\r\033[K")

    def _draw(self) -> None:
        if self._tty and self._active:
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 10
            sys.stderr.write(f"{self._clock()} {self._summary(max(width, 20))}")
        self._last_beat = time.monotonic()
        sys.stderr.flush()


console = Console()
_running: set[subprocess.Popen[bytes]] = set()  # commands under way, for kill_all
_running_lock = threading.Lock()

# What is worth showing of a build's output: ninja's counter, pip's and apt's current package.
_PROGRESS = re.compile(
    r"^\s*(\[\d+/\d+\]|Collecting|Downloading|Installing|Setting up|Unpacking|Get:)\s*(.*)")


def progress_of(line: str) -> str | None:
    match = _PROGRESS.match(line)
    if not match:
        return None
    rest = match.group(2).strip()
    if match.group(1).startswith("["):
        rest = rest.split(" ")[0] + " " + rest.rsplit("/", 1)[-1]
    return f"{match.group(1)} {rest}"[:60]


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    try:
        content = log.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"({error})"
    return "\n".join("    " + line for line in content[-lines:])


def run(
    title: str,
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    attempts: int = 1,
    timeout_s: float | None = None,
    before_retry: Callable[[], None] | None = None,
) -> None:
    """Runs a command with its output in `log`; raises StepFailed with the log's tail."""
    log.parent.mkdir(parents=True, exist_ok=True)
    console.begin(title)
    for attempt in range(1, attempts + 1):
        outcome = _run_once(title, command, log, env, cwd, timeout_s)
        if outcome is None:
            console.end(title, "done")
            return
        if attempt < attempts:
            pause = 5 * attempt
            console.line(f"{title}: {outcome}; trying again in {pause} s")
            time.sleep(pause)
            if before_retry is not None:
                before_retry()
    console.end(title, "FAILED")
    words = " ".join(shlex.quote(os.fspath(word)) for word in command)
    raise StepFailed(f"{title}: {outcome}\n  command: {words}\n  end of {log}:\n{tail(log)}")


def _run_once(
    title: str,
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    env: dict[str, str] | None,
    cwd: Path | None,
    timeout_s: float | None,
) -> str | None:
    """None on success, otherwise what went wrong."""
    with log.open("wb") as sink:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=env, cwd=cwd, start_new_session=True)
        except OSError as error:
            sink.write(f"{error}\n".encode())
            return str(error)
        assert process.stdout is not None
        output = process.stdout

        def pump() -> None:
            for raw in output:
                sink.write(raw)
                shown = progress_of(raw.decode(errors="replace"))
                if shown:
                    console.update(title, shown)

        reader = threading.Thread(target=pump, daemon=True)
        reader.start()
        deadline = time.monotonic() + timeout_s if timeout_s else None
        with ended_by_kill_all(process):
            while process.poll() is None:
                time.sleep(0.1)
                console.tick()
                if deadline and time.monotonic() > deadline:
                    kill_session(process)
                    reader.join(5)
                    return f"not finished after {timeout_s:.0f} s"
        reader.join(5)
    return None if process.returncode == 0 else f"exit status {process.returncode}"


@contextmanager
def ended_by_kill_all(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """While it runs. An exception ends it."""
    with _running_lock:
        _running.add(process)
    try:
        yield
    except BaseException:
        kill_session(process)
        raise
    finally:
        with _running_lock:
            _running.discard(process)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was started in a session of its own, and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM:
            time.sleep(0.2)


def kill_all() -> None:
    """Ends every command that is still running (the user pressed Ctrl-C)."""
    with _running_lock:
        processes = list(_running)
    for process in processes:
        kill_session(process)


def in_parallel(jobs: Sequence[Callable[[], None]]) -> None:
    """Runs jobs in threads and waits for all; raises StepFailed with every failure."""
    failures: list[str] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except StepFailed as failure:
            failures.append(str(failure))

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise StepFailed("\n".join(failures))
