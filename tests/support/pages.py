"""The commands of the documentation: the blocks of pages, and a folder to run them in."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("start", "run", "choices", "dcp", "lab", "simulation")),
         *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "tutorials").glob("*.md"))]
MARK = re.compile(r"<!-- not run here: (.+) -->")
# What stands for a reader's own program.
APP = """#!/bin/sh
exec "$(dirname "$0")/cg-of-the-tests" --side 24 --seconds 0
"""


@dataclass(frozen=True)
class Block:
    """Text between fences. `reason`: why it is not run where the others are; empty for most."""

    page: str
    line: int
    language: str
    text: str
    reason: str


def blocks(page: str) -> list[Block]:
    found, lines, start = [], (ROOT / page).read_text().splitlines(), None
    for number, line in enumerate(lines):
        fence = re.fullmatch(r"```(\w*)", line)
        if fence and start is None:
            start, language = number, fence[1]
        elif line == "```" and start is not None:
            mark = MARK.fullmatch(lines[start - 1]) if start else None
            found.append(Block(page, start + 1, language, "\n".join(lines[start + 1:number]), mark[1] if mark else ""))
            start = None
    assert start is None, f"{page}: a fence is not closed"
    return found


def workspace(folder: Path, mpi: Path) -> Path:
    """A folder that looks like the repository to a command line, with ./app in it."""
    for path in ROOT.iterdir():
        if path.name not in (".git", "build"):
            (folder / path.name).symlink_to(path)
    subprocess.run([str(mpi / "bin" / "mpicc"), "-O2", str(ROOT / "examples" / "cg" / "cg.c"), "-o",
                    str(folder / "cg-of-the-tests"), "-lm"], check=True)
    (folder / "app").write_text(APP)
    (folder / "app").chmod(0o755)
    return folder


def run(commands: list[Block], folder: Path, mpi: Path, limit_s: float, **more: str) -> str:
    """Runs blocks in one shell, as a reader would, and returns what they print. AssertionError says which block failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_") and name != "LD_PRELOAD"}
    environment["PATH"] = f"{ROOT / '.venv' / 'bin'}:{mpi / 'bin'}:{environment['PATH']}"
    script = "set -e\n" + "".join(f"echo '# {block.page}:{block.line}'\n{block.text}\n" for block in commands)
    answer = subprocess.run(["sh", "-c", script], cwd=folder, env={**environment, **more}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s, check=False)
    assert answer.returncode == 0, f"exit status {answer.returncode} after\n{answer.stdout[-4000:]}"
    return answer.stdout
