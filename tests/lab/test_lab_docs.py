"""The commands of the documentation that need a lab, and so root."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pages  # noqa: E402

LIMIT_S = 110


def test_commands(tmp_path):
    mpi = ROOT / ".envs" / "mpich"
    if not (mpi / "bin" / "mpicc").exists():
        pytest.skip("mpich is not installed in .envs (make test installs it)")
    every = [block for page in pages.PAGES for block in pages.blocks(page)]
    found = [block for block in every if block.reason.endswith("tests/lab/test_lab_docs.py")]
    assert len(found) >= 2
    commands = [pages.Block(block.page, block.line, "sh", block.text.replace("sudo ", ""), "") for block in found]
    output = pages.run(commands, pages.workspace(tmp_path, mpi), mpi, LIMIT_S)
    labs, runs = (sum(block.text.count(command) for block in found) for command in ("tutti lab", "tutti run"))
    assert output.count(": right") == labs, output
    assert output.count("tutti: took over the collectives of 8 ranks") == runs, output
