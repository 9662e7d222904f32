"""The processes that a process has started."""

from __future__ import annotations

import contextlib
from pathlib import Path


def below(pid: int) -> list[int]:
    """The processes that `pid` has started, and theirs, by number. Whoever has lost its parent is not among them."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        more = children.get(queue.pop(), [])
        found += more
        queue += more
    return found


def alive(pid: int) -> bool:
    """True while it runs; a process that has ended and not been waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
