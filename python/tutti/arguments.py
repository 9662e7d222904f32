"""What several commands take: lists of numbers."""

from __future__ import annotations

from tutti import native
from tutti.errors import UserError


def numbers(text: str, what: str) -> list[int]:
    """A list such as 4,64,1K."""
    values = [native.core().bytes_of(part) for part in text.split(",")]
    if not values or min(values) < 0:
        raise UserError(f"--{what} takes whole numbers such as 4 or 4,64,1K, not '{text}'")
    return values
