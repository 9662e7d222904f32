"""Running jobs, found through /proc: nothing is asked of them, and nothing is stopped. A rank holds the shared segment of
its node open, and its user finds in it what each rank of the node says of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
DELETED = " (deleted)"  # of a file that has no name any more, as these have none


def _is_segment(name: str) -> bool:
    """By TUTTI_SEGMENT."""
    return name.removesuffix(DELETED) == "/memfd:tutti" or name.startswith("/dev/shm/tutti-") and name.endswith(DELETED)


def _is_list(name: str) -> bool:
    return name.removesuffix(DELETED) == "/memfd:tutti-nodes"


@dataclass(frozen=True)
class NodeList:
    """The machines of a job, as one of its ranks on this machine has them."""

    machines: list[str]
    pid: int  # of that rank, here

    def environment(self) -> dict[str, str]:
        """That rank's, as its launcher has made it; empty where it has ended."""
        try:
            entries = (PROC / str(self.pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return {}
        return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)


@dataclass
class Segments:
    """What this user's jobs hold open, and the processes that do. Not of other users', also where the system would permit it."""

    paths: list[str] = field(default_factory=list)  # in /proc, one for each segment
    # By pid namespace and number in it: ranks in containers know themselves by other numbers.
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    lists: dict[str, NodeList] = field(default_factory=dict)  # by job: of those that run on several machines

    def process_here(self, namespace: int, pid: int) -> int:
        """The number here of a process of that namespace. 0: it has ended, or is not to be seen."""
        return self.numbers.get((namespace, pid)) or (pid if namespace == _namespace("self") else 0)


def segments() -> Segments:
    """All that there are."""
    found = Segments()
    known: set[tuple[int, int]] = set()
    for pid in _numbers(PROC):
        for number in _numbers(PROC / str(pid) / "fd"):
            path = f"{PROC}/{pid}/fd/{number}"
            try:
                name = os.readlink(path)
                if not _is_segment(name) and not _is_list(name):
                    continue
                info = os.stat(path)
                if info.st_uid != os.geteuid():
                    continue
                if _is_list(name):
                    job, *machines = Path(path).read_text().split()
                    found.lists[job] = NodeList(machines, pid)
                    continue
            except (OSError, ValueError):  # it has just been closed, or is being written
                continue
            found.numbers[_namespace(str(pid)), _number_inside(pid)] = pid
            if (info.st_dev, info.st_ino) not in known:
                known.add((info.st_dev, info.st_ino))
                found.paths.append(path)
    return found


def _namespace(pid: str) -> int:
    """The pid namespace of a process; 0 where it is not to be seen."""
    try:
        return (PROC / pid / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def _number_inside(pid: int) -> int:
    """The number of a process in its own pid namespace."""
    try:
        status = (PROC / str(pid) / "status").read_text()
    except OSError:
        return pid
    return next((int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")), pid)


def _numbers(folder: Path) -> Iterator[int]:
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or gone
        return
    yield from sorted(int(name) for name in names if name.isdigit())


def ancestors(pid: int) -> set[int]:
    """A process and those that it comes from."""
    line: set[int] = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        pid = int(fields[1])
    return line
