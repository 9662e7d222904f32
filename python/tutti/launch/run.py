"""`tutti run`: plan, start, and say what came of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from tutti import library_folder
from tutti.errors import Failure
from tutti.launch.execute import execute
from tutti.launch.plan import make_plan

STAMP = "TUTTI_RUN_STAMP"  # names a file that rank 0 makes when it takes over
# Any value of these is right; what has others is checked by the extension module, whose import is what a run without
# settings need not pay.
FREE = ("TUTTI_REPORT", "TUTTI_REPORT_JSON")
SWITCHED = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def say(text: str) -> None:
    """One line on standard error: the standard output is the program's."""
    print(f"tutti: {text}", file=sys.stderr, flush=True)


def run(words: list[str], options: dict[str, str]) -> int:
    """Runs a launcher's command line with tutti; its exit status. `options` are settings that came
    as options of `tutti run`."""
    environment = dict(os.environ)
    settings = {name: value for name, value in environment.items() if name.startswith("TUTTI_")}
    settings.update(options)
    if _disabled(settings, options):
        say("switched off by TUTTI_DISABLE: the job runs on its MPI alone")
        return _start(words, environment)
    with _folder() as folder:
        stamp = os.path.join(folder, "stamp")
        settings[STAMP] = stamp
        plan = make_plan(words, settings, environment, library_folder())
        for note in plan.notes:
            say(note)
        said: list[str] = []

        def look() -> bool:
            """Says what the job has told of itself, when it has; True from then on."""
            note = _read(stamp)
            if note and note not in said:
                say(note)
                said.append(note)
            return bool(said)

        status = _start(plan.command, plan.environment, look)
        note = _read(stamp)
        if note:
            look()
        elif plan.preload and status == 0 and note is None and not plan.elsewhere:
            say("no calls seen: no rank started an MPI that tutti could take over (a program without MPI, "
                "an MPI linked in statically or opened in a way that cannot be intercepted, or containers whose "
                f"{os.path.dirname(folder)} is their own, so that they cannot tell)")
        return status


def _disabled(settings: dict[str, str], options: dict[str, str]) -> bool:
    """Whether tutti is switched off. Raises UserError when a setting is wrong."""
    checked = {name: value for name, value in settings.items() if name not in FREE}
    if not checked:
        return False
    if list(checked) == ["TUTTI_DISABLE"] and checked["TUTTI_DISABLE"] in SWITCHED:
        return SWITCHED[checked["TUTTI_DISABLE"]]
    from tutti import native

    native.check_settings(options)
    return native.disabled(options)


@contextlib.contextmanager
def _folder():
    """A folder of this run's own, as tempfile would make it."""
    for parent in (os.environ.get("TMPDIR"), os.environ.get("TEMP"), os.environ.get("TMP"), "/tmp", "/var/tmp", os.getcwd()):
        folder = os.path.join(parent or "/nowhere", f"tutti-run-{os.getpid()}-{os.urandom(6).hex()}")
        with contextlib.suppress(OSError):
            os.mkdir(folder, 0o700)
            break
    else:
        raise Failure("no folder for temporary files can be written; set TMPDIR")
    try:
        yield os.path.abspath(folder)
    finally:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            os.rmdir(folder)


def _read(stamp: str) -> str | None:
    """What the job has left there, in one line; None when nothing has."""
    try:
        with open(stamp, encoding="utf-8", errors="replace") as file:
            return " ".join(file.read().split())
    except OSError:
        return None


def _start(command: list[str], environment: dict[str, str], look: Callable[[], bool] = lambda: True) -> int:
    try:
        return execute(command, environment, look)
    except OSError as error:
        raise Failure(f"cannot start '{command[0]}': {error.strerror}") from None
