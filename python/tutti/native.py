"""The part of tutti that is C++: settings, versions, memory. One place to import it, so that an
incomplete installation is one clear line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from tutti.errors import Failure, UserError

try:
    from tutti import _core
except ImportError as error:
    _core = None
    _reason = str(error)


@dataclass(frozen=True)
class Setting:
    """One line of `tutti info`."""

    name: str
    type: str
    default: str
    value: str
    source: str
    help: str
    ranks: str  # what the ranks of a job may have: "any" value each, "equal" ones, or it is set on "all or none"
    for_tests: bool  # of tutti itself; nobody needs it to run a program


def core():
    """The extension module."""
    if _core is None:
        raise Failure(f"tutti is not completely installed ({_reason}): pip install --force-reinstall tutti-mpi")
    return _core


def settings() -> list[Setting]:
    """Every setting, as this process's environment and file have it."""
    return [Setting(*line) for line in core().describe_settings()]


def check_settings(extra: dict[str, str]) -> None:
    """Raises UserError when a TUTTI_* variable of the environment, or of `extra`, is unknown or bad."""
    with _environment(extra):
        message = core().check_settings()
    if message:
        raise UserError(message)


def disabled(extra: dict[str, str]) -> bool:
    """Whether tutti is switched off by the environment, the file or `extra`."""
    with _environment(extra):
        return next(line.value for line in settings() if line.name == "TUTTI_DISABLE") == "1"


@contextlib.contextmanager
def _environment(extra: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def memory() -> dict[str, int]:
    """Bytes of shared memory, measured on a job of one rank made for the purpose: per communicator,
    in use, and reserved. The small-message path does not grow with the number of ranks."""
    try:
        return dict(core().memory())
    except RuntimeError as error:
        raise Failure(str(error)) from None


def memory_between_nodes() -> list[dict[str, int]]:
    """For 2 to 1024 nodes: bytes per communicator (with and without multicast) and per job and rank, of the rank that
    leads its node, and how many others it has connections with."""
    return [dict(row) for row in core().memory_between_nodes()]


def fabrics() -> list[tuple[str, str]]:
    """(name, what it reaches or why it does not) of every fabric of this build."""
    return [tuple(fabric) for fabric in core().fabrics()]


def algorithms() -> dict[str, list[str]]:
    """The names of all algorithms, by collective."""
    names: dict[str, list[str]] = {}
    for collective, name in core().algorithms():
        names.setdefault(collective, []).append(name)
    return names
