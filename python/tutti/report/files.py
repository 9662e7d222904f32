"""Files that the user has named, and those with data: rows as JSON, text, TOML."""

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


def read_toml(path: Path, command: str) -> dict[str, Any]:
    """`command`: who reads it, for Python 3.10, which cannot."""
    try:
        import tomllib
    except ModuleNotFoundError:
        raise UserError(f"{command} reads TOML files and needs Python 3.11 or newer") from None
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
