"""Busy processes beside a benchmark: other users of the machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

# It ends by itself, should nobody be left to end it.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100000))\n"


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _BUSY], stdin=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield
