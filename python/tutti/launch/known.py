"""Launchers that have said who they are, so that not every job asks again: a file of lines in the user's cache.

Only for ELF files: what a script answers may hang on anything. An entry holds for the very file (place, time of change,
size) and the variables that lead to another of the same name. The cache is a convenience: what cannot be read or written,
or belongs to somebody else, is as if it were not there."""

from __future__ import annotations

import contextlib
import os
import stat

FORMAT = "tutti launchers 1"
MOST = 40          # entries that are kept, the newest
MOST_BYTES = 65536
VARIABLES = ("LD_LIBRARY_PATH", "OPAL_PREFIX", "PRTE_PREFIX", "I_MPI_ROOT")


def find(launcher: str) -> tuple[str, str, str] | None:
    """(kind, MPI, version) as `remember` was told."""
    key = _key(launcher)
    if key is None:
        return None
    for line in reversed(_read()):
        words = line.split("\t")
        if words[:-3] == key:
            return words[-3], words[-2], words[-1]
    return None


def remember(launcher: str, answer: tuple[str, str, str]) -> None:
    key = _key(launcher)
    line = "\t".join([*(key or []), *answer])
    if key is None or "\n" in line or line.count("\t") != len(key) + 2:
        return
    file = _file()
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        temporary = f"{file}.{os.getpid()}.{os.urandom(4).hex()}"
        text = "\n".join([FORMAT, *_read()[-(MOST - 1):], line]) + "\n"
        # Whole or not at all: of several that write at once the last wins.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as out:
                out.write(text)
            os.replace(temporary, file)
        except OSError:
            os.unlink(temporary)


def _file() -> str:
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # the specification says to ignore others
        home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "tutti", "launchers")


def _read() -> list[str]:
    file = _file()
    if not os.path.isabs(file):  # no home
        return []
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as source:
            about = os.fstat(descriptor)
            mine = about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not stat.S_ISREG(about.st_mode) or not mine or about.st_size > MOST_BYTES:
                return []
            lines = source.read().decode(errors="surrogateescape").splitlines()
    except (OSError, ValueError):
        return []
    return lines[1:] if lines[:1] == [FORMAT] else []


def _key(launcher: str) -> list[str] | None:
    """What the answer depends on; None where nothing may be remembered."""
    try:
        real = os.path.realpath(launcher)
        about = os.stat(real)
        with open(real, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
    except (OSError, ValueError):
        return None
    name = os.path.basename(launcher)  # one file may be several programs
    key = [real, name, str(about.st_mtime_ns), str(about.st_size), *[os.environ.get(name, "") for name in VARIABLES]]
    return None if any("\t" in word or "\n" in word or "\r" in word for word in key) else key
