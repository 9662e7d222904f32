"""Where a call comes from: the module and the offset in it, and the source line where there is debug information and
addr2line to read it."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

LIMIT_S = 10
ET_EXEC = 2  # of an ELF header: linked to a fixed address, which its addresses include
MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ \S+ \d+ *(.*)")
Module = tuple[int, int, int, str]  # begin, end, where the module begins, path


@dataclass
class Sites:
    """Looks up addresses of processes; remembers what it has found."""

    source: bool = True  # ask for source lines
    _maps: dict[int, list[Module]] = field(default_factory=dict)
    _lines: dict[tuple[str, int], str] = field(default_factory=dict)

    def text(self, pid: int, process: str, address: int) -> str:
        """ "solver.c:120 (solver+0x1234)"; empty where nothing is known. `process`: as in /proc/PID/stat."""
        # By way of the process, since it may be in a mount namespace of its own.
        return "" if process in "X?" else self.in_modules(self.modules_of(pid), f"/proc/{pid}/root", address)

    def in_modules(self, modules: list[Module], root: str, address: int) -> str:
        """The same in modules whose files lie below `root`."""
        place = address - 1  # of the call: the address that it returns to may be behind the function
        for begin, end, base, module in modules if address else ():
            if begin <= place < end:
                return self._in_module(root, module, place, place - base)
        return ""

    def modules_of(self, pid: int) -> list[Module]:
        """What is mapped in a process."""
        if pid not in self._maps:
            self._maps[pid] = modules(pid)
        return self._maps[pid]

    def forget_processes(self) -> None:
        """What is mapped in them may have changed."""
        self._maps.clear()

    def _in_module(self, root: str, module: str, place: int, offset: int) -> str:
        name = f"{Path(module).name or 'generated code'}+{offset:#x}"
        if not self.source or not module.startswith("/"):
            return name
        key = (module, offset)
        if key not in self._lines:
            self._lines[key] = _source_line(root.rstrip("/") + module, place, offset)
        line = self._lines[key]
        return f"{line} ({name})" if line else name


def modules(pid: int) -> list[Module]:
    """What is mapped in a process."""
    try:
        return parse_maps(Path(f"/proc/{pid}/maps").read_text())
    except OSError:
        return []


def parse_maps(text: str) -> list[Module]:
    """Of /proc/PID/maps."""
    rows: list[Module] = []
    for line in text.splitlines():
        if (match := MAP.match(line)) is None:
            continue
        begin, end, module = int(match[1], 16), int(match[2], 16), match[3]
        continues = bool(rows) and module != "" and rows[-1][3] == module
        rows.append((begin, end, rows[-1][2] if continues else begin, module))
    return rows


def _source_line(path: str, place: int, offset: int) -> str:
    """ "solver.c:120", or empty."""
    addr2line = shutil.which("addr2line")
    try:
        with Path(path).open("rb") as file:
            header = file.read(18)
    except OSError:
        return ""
    if addr2line is None or header[:4] != b"\x7fELF":
        return ""
    fixed = struct.unpack_from("<H", header, 16)[0] == ET_EXEC
    try:
        done = subprocess.run([addr2line, "-s", "-e", path, hex(place if fixed else offset)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    line = done.stdout.split(" (")[0].strip()
    return "" if done.returncode != 0 or line.startswith("??") or line.endswith((":?", ":0")) else line
