"""Durations, rates and probabilities as users write them."""

from __future__ import annotations

import re

from tutti.errors import UserError

_TIME = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RATE = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ/]*)", re.IGNORECASE)
LONGEST_NS = 60e9


def nanoseconds(text: str, option: str) -> int:
    """ "500us" -> 500000. Raises UserError."""
    match = _NUMBER.fullmatch(text.strip())
    if match and (match[2].lower() in _TIME or float(match[1]) == 0):
        value = float(match[1]) * _TIME.get(match[2].lower(), 0.0)
        if value <= LONGEST_NS:
            return round(value)
    raise UserError(f"{option} {text}: expected a time up to 60s with its unit, such as 500us, 2ms or 0")


def bits_per_second(text: str, option: str) -> float:
    """ "1Gbit" -> 1e9; "0" is unlimited. Raises UserError."""
    match = _NUMBER.fullmatch(text.strip())
    if match:
        unit = match[2].lower().removesuffix("/s").removesuffix("ps")
        if float(match[1]) == 0 and not match[2]:
            return 0.0
        if unit in _RATE and float(match[1]) * _RATE[unit] >= 1e4:
            return float(match[1]) * _RATE[unit]
    raise UserError(f"{option} {text}: expected bits per second from 10kbit on, such as 1Gbit or 100Mbit, or 0 for "
                    "no limit")


def probability(value: float, option: str) -> float:
    """Raises UserError."""
    if not 0 <= value <= 1:
        raise UserError(f"{option} {value:g}: expected a probability from 0 to 1, such as 0.003")
    return value


def time_text(ns: float) -> str:
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= scale:
            return f"{ns / scale:g} {unit}"
    return f"{ns:g} ns"


def rate_text(bits: float) -> str:
    if bits == 0:
        return "unlimited rate"
    for unit, scale in (("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6)):
        if bits >= scale:
            return f"{bits / scale:g} {unit}/s"
    return f"{bits / 1e3:g} kbit/s"
