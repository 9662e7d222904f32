"""Files that the user has named: rows as JSON, text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tutti.errors import UserError


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    write_text(path, json.dumps(rows, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
