"""What is being waited for, on a terminal, once it takes more than two seconds."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

PATIENCE_S = 2.0  # what ends before is not worth a line
REFRESH_S = 0.5


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Around work that has no steps to count. Where standard error is no terminal, nothing is said."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    shower = threading.Thread(target=_show, args=(what, over), daemon=True)
    shower.start()
    try:
        yield
    finally:
        over.set()
        shower.join()


def _show(what: str, over: threading.Event) -> None:
    begun = time.monotonic()
    if over.wait(PATIENCE_S):
        return
    while True:
        width = max(20, shutil.get_terminal_size().columns - 1)
        sys.stderr.write(f"\r\033[K{f'{what} ... {time.monotonic() - begun:.0f} s'[:width]}")
        sys.stderr.flush()
        if over.wait(REFRESH_S):
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            return
