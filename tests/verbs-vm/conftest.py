"""What the tests in the virtual machine share: one boot for all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import vm  # noqa: E402

COMMAND_LIMIT_S = 300


@pytest.fixture(scope="session")
def programs():
    """What must be there before the machine boots; test modules have their own."""


@pytest.fixture(scope="session")
def machine(request, programs) -> dict[str, vm.Result]:
    """The results of all commands that the tests of this session named with @pytest.mark.runs(name, command)."""
    commands = {}
    for item in request.session.items:
        for mark in item.iter_markers("runs"):
            commands[mark.args[0]] = mark.args[1]
    try:
        results = vm.run(list(commands.values()), COMMAND_LIMIT_S)
    except vm.Unavailable as reason:
        pytest.skip(str(reason))
    return dict(zip(commands, results, strict=True))


@pytest.fixture
def result(request, machine) -> vm.Result:
    """The result of the test's own command."""
    return machine[request.node.get_closest_marker("runs").args[0]]
