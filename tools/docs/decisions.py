"""Makes docs/decisions/README.md, the index, of the decisions' titles and their lines "**Status**: ...".

A title may begin with its number. A file without a status is an error."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
HEAD = """# Decisions

<!-- Made by tools/docs/generate.py from the titles and the status lines of the files. -->

One page per decision: what was decided, why, what was measured, and what would make us think again. A page keeps its number for
ever. When a later decision replaces or extends it, its status says so.

| | decision | status |
|---|---|---|
"""


def title_of(text: str, path: Path) -> str:
    match = re.match(r"# (?:\d+\. )?(.+)\n", text)
    if not match:
        raise SystemExit(f"{path}: the first line must be its title, '# ...'")
    return match[1]


def status_of(text: str, path: Path) -> str:
    match = re.search(r"^\*\*Status\*\*: (.+?)\.?$", text, re.MULTILINE)
    if not match:
        raise SystemExit(f"{path}: there is no line '**Status**: in force', or 'replaced by [0042](...)'")
    return match[1]


def index() -> str:
    lines = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        text = path.read_text()
        lines.append(f"| {path.name[:4]} | [{title_of(text, path)}]({path.name}) | {status_of(text, path)} |\n")
    return HEAD + "".join(lines)
