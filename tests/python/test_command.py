"""The command line as a whole: what help shows first, and what is said while one waits."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys

from conftest import clean_environment

SLOW = """
import time
from tutti.report.waiting import waiting
with waiting("simulating 5 ranks"):
    time.sleep({seconds})
print("done")
"""


def test_help_has_what_most_people_need_first(tutti):
    text = tutti("--help", env={"COLUMNS": "120"}).out
    names = re.findall(r"^│ ([a-z]+)  ", text, re.MULTILINE)
    assert names == ["run", "info", "report", "where", "trace", "bench", "tune", "sim", "model", "paper", "explain", "lab"]
    researchers = text.index("For researchers")
    assert text.index("│ tune ") < researchers < text.index("│ sim ")


def test_settings_for_tests_are_apart(tutti):
    text = tutti("info", env={"COLUMNS": "120"}).out
    apart = text.index("Settings for tests of tutti")
    for name in ("TUTTI_FAULT", "TUTTI_NODE", "TUTTI_TRACE"):
        assert text.index(f"\n{name} ") > apart, name
    for name in ("TUTTI_WAIT", "TUTTI_REPORT", "TUTTI_NET", "TUTTI_CHECK"):
        assert text.index(f"\n{name} ") < apart, name


def on_a_terminal(seconds: float) -> str:
    """What such a wait shows there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", SLOW.format(seconds=seconds)], env=clean_environment(), stderr=theirs,
                          stdout=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        assert process.wait(60) == 0
    return shown.decode()


def test_a_long_wait_says_what_for_and_is_erased():
    shown = on_a_terminal(4)
    assert re.search(r"simulating 5 ranks \.\.\. \d+ s", shown), shown
    assert shown.replace("\r\033[K", "\n").split("\n")[-2].strip() == "done", shown


def test_nothing_is_said_where_there_is_no_terminal():
    answer = subprocess.run([sys.executable, "-c", SLOW.format(seconds=2.5)], env=clean_environment(), capture_output=True,
                            text=True, timeout=60, check=True)
    assert (answer.stdout, answer.stderr) == ("done\n", "")
