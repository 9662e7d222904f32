"""How `tutti where` reaches other machines: which command starts an agent there, what becomes of one that does not answer, and
that none is left."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time

import pytest
from tutti.where import machines
from tutti.where.machines import SSH, Machines, command_on

WORDS = ["python", "-m", "a module"]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """shell(text): the environment of a job whose launcher uses this script for ssh; its first word is the machine."""

    def make(text, name="agent"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return {"HYDRA_LAUNCHER_EXEC": str(script)}

    return make


def test_ssh_is_used_unless_the_launcher_was_told_otherwise():
    assert command_on("n1", WORDS, {}) == [*SSH, "n1", "python -m 'a module'"]
    assert command_on("n1", WORDS, {"OMPI_MCA_plm_rsh_agent": "no-such-program:ssh -p 7"}) == [
        *SSH, "-p", "7", "n1", "python -m 'a module'"]


def test_what_the_launcher_uses_is_used(shell):
    agent = shell("")["HYDRA_LAUNCHER_EXEC"]
    for name in machines.SHELLS:
        assert command_on("n1", WORDS, {name: agent}) == [agent, "n1", "python -m 'a module'"]


def test_in_a_job_of_slurm_it_is_srun(shell):
    shell("", "srun")
    words = command_on("n1", WORDS, {"SLURM_JOB_ID": "42", "HYDRA_LAUNCHER_EXEC": "/bin/true"})
    assert words[0] == "srun" and {"--jobid=42", "--overlap", "--nodelist=n1"} <= set(words) and words[-3:] == WORDS


def test_machines_that_do_not_answer_are_named(shell, monkeypatch):
    monkeypatch.setattr(machines, "PATIENCE_S", 1)
    environment = shell('case $1 in refuses) echo "no way" >&2; exit 255;; lies) echo "{}";; esac; exec sleep 60')
    with Machines(["refuses", "lies", "sleeps"], environment, None, 0) as others:
        assert others.look() == []
        assert others.problems() == {"refuses": "no way", "lies": "an answer of another version of tutti",
                                     "sleeps": "no answer in time"}
        assert others.look() == [], "they are not asked again"
        monkeypatch.setattr(machines, "END_S", 0.1)


def test_an_agent_answers_and_ends_with_its_input(shell):
    with Machines(["here"], shell('shift; exec sh -c "$*"'), None, 0) as others:
        looks = others.look()
        assert others.problems() == {} and len(looks) == 1
        assert abs(looks[0].now - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) < 60e9
        assert looks[0].site(1, "X", 4711) == ""
        process = others.agents[0]._process
    assert process.returncode == 0


def test_an_agent_that_nobody_asks_ends():
    words = [sys.executable, "-m", "tutti.where.agent", "0.2", "no-such-job"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        agent.stdin.write(json.dumps({"look": True}) + "\n")
        agent.stdin.flush()
        assert json.loads(agent.stdout.readline())["ranks"] == []
        assert agent.wait(timeout=30) == 0
