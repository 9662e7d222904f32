"""Other machines of a job: an agent on each, started the way the job's launcher has started its own helpers there, and asked
over its standard streams."""

from __future__ import annotations

import contextlib
import json
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tutti.where.ranks import Look, from_json

PATIENCE_S = 30  # for an answer, the start included
END_S = 5
# By which launchers are told what to use for ssh: MPICH's, Intel's and Open MPI's; the last may name several, apart by colons.
SHELLS = ("HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]


def command_on(machine: str, words: list[str], environment: Mapping[str, str]) -> list[str]:
    """The command that runs `words` on another machine of the job whose ranks have this environment."""
    job = environment.get("SLURM_JOB_ID")
    if job is not None and shutil.which("srun"):
        return ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={machine}", *words]
    return [*_remote_shell(environment), machine, shlex.join(words)]


def _remote_shell(environment: Mapping[str, str]) -> list[str]:
    for name in SHELLS:
        for one in environment.get(name, "").split(":"):
            words = shlex.split(one)
            if words and shutil.which(words[0]):
                return words if words[0].rpartition("/")[2] != "ssh" else [*SSH, *words[1:]]
    return SSH


@dataclass
class Agent:
    """One on one machine. What it does not answer in time, it does not answer at all: `problem` then says why."""

    machine: str
    problem: str | None = None
    _lines: queue.Queue[bytes | None] = field(default_factory=queue.Queue)

    def start(self, words: list[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                                             start_new_session=True)
        except OSError as error:
            self.problem = f"{words[0]}: {error.strerror}"
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, question: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: the answer says so
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, until: float) -> dict[str, Any] | None:
        """To the last question, at a time of time.monotonic() at the latest."""
        try:
            line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            self.problem = "no answer in time"
            return None
        with contextlib.suppress(ValueError):
            if line is not None and isinstance(found := json.loads(line), dict):
                return found
        self.problem = self._last_words() or "no answer"
        return None

    def site(self, pid: int, process: str, address: int) -> str:
        """Where a call of a process there comes from."""
        if self.problem is not None:
            return ""
        self.ask({"site": [pid, process, address]})
        found = self.answer(time.monotonic() + PATIENCE_S)
        return str(found.get("text", "")) if found is not None else ""

    def look(self, until: float) -> Look | None:
        found = self.answer(until)
        if found is None:
            return None
        try:
            return from_json(found, self.site)
        except (KeyError, TypeError, ValueError, zlib.error):
            self.problem = "an answer of another version of tutti"
            return None

    def close(self) -> None:
        """Ends it: it has no input any more."""
        if not hasattr(self, "_process"):
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class Machines:
    """The other machines of a job, until close(). A context manager."""

    def __init__(self, names: Iterable[str], environment: Mapping[str, str], job: str | None, pause_s: float) -> None:
        """`pause_s`: between two looks at most."""
        words = [sys.executable, "-m", "tutti.where.agent", str(pause_s + 2 * PATIENCE_S), *([job] if job is not None else [])]
        self.job = job
        self.agents = [Agent(name) for name in names]
        for agent in self.agents:
            agent.start(command_on(agent.machine, words, environment))

    def look(self) -> list[Look]:
        """At all of them at about the same time; without those that do not answer."""
        asked = [agent for agent in self.agents if agent.problem is None]
        for agent in asked:
            agent.ask({"look": True})
        until = time.monotonic() + PATIENCE_S
        looks = [agent.look(until) for agent in asked]
        return [look for look in looks if look is not None]

    def problems(self) -> dict[str, str]:
        """Why machines are not seen."""
        return {agent.machine: agent.problem for agent in self.agents if agent.problem is not None}

    def close(self) -> None:
        for agent in self.agents:
            agent.close()

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
