"""Starts benchmark programs, here or in a lab, and ends those that take too long."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tutti.lab import Lab

START_S = 60.0  # for a launch to start and stop


def progress(console: Console) -> Progress:
    return Progress(TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    TimeRemainingColumn(), console=console, transient=True)


def reason(status: int, limit: float) -> str:
    return f"not finished after {limit:.0f} s" if status == -signal.SIGKILL else f"exit status {status}"


def tail(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines()[-15:])


def here(command: list[str], environment: dict[str, str], limit_s: float) -> tuple[int, str]:
    """Exit status (-SIGKILL after the time limit) and what was said."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit_s)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        end(process)
        said, _ = process.communicate()
        return -signal.SIGKILL, said
    except BaseException:
        end(process)
        raise


def in_lab(lab: Lab, command: list[str], environment: dict[str, str], limit_s: float) -> tuple[int, str]:
    """The same in a lab."""
    try:
        answer = lab.run(command, env=environment, timeout=limit_s)
        return answer.returncode, answer.stdout + answer.stderr
    except subprocess.TimeoutExpired as expired:
        return -signal.SIGKILL, f"{expired.output}{expired.stderr}"


def end(process: subprocess.Popen[str]) -> None:
    """Ends a launch: the launcher first, so that it takes its ranks along."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        time.sleep(1 if number == signal.SIGTERM else 0)
