"""`tutti run`: plan, start, and say what came of it."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tutti import library_folder, native
from tutti.errors import Failure
from tutti.launch.execute import execute
from tutti.launch.plan import make_plan

STAMP = "TUTTI_RUN_STAMP"  # names a file that rank 0 makes when it takes over


def say(text: str) -> None:
    """One line on standard error: the standard output is the program's."""
    print(f"tutti: {text}", file=sys.stderr, flush=True)


def run(words: list[str], options: dict[str, str]) -> int:
    """Runs a launcher's command line with tutti; its exit status. `options` are settings that came
    as options of `tutti run`."""
    native.check_settings(options)
    environment = dict(os.environ)
    if native.disabled(options):
        say("switched off by TUTTI_DISABLE: the job runs on its MPI alone")
        return _start(words, environment)
    with tempfile.TemporaryDirectory(prefix="tutti-run-") as folder:
        stamp = Path(folder) / "stamp"
        settings = {name: value for name, value in environment.items() if name.startswith("TUTTI_")}
        settings.update(options)
        settings[STAMP] = str(stamp)
        plan = make_plan(words, settings, environment, library_folder())
        for note in plan.notes:
            say(note)
        status = _start(plan.command, plan.environment)
        note = " ".join(stamp.read_text().split()) if stamp.exists() else None
        if note:
            say(note)
        elif plan.preload and status == 0 and note is None:
            say("no calls seen: no rank started an MPI that tutti could take over (a program without MPI, "
                "an MPI linked in statically or opened in a way that cannot be intercepted, or containers whose "
                f"{Path(folder).parent} is their own, so that they cannot tell)")
        return status


def _start(command: list[str], environment: dict[str, str]) -> int:
    try:
        return execute(command, environment)
    except OSError as error:
        raise Failure(f"cannot start '{command[0]}': {error.strerror}") from None
