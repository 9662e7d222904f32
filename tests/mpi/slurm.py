"""A Slurm cluster on this machine, for one test session: its controller, two nodes and munge, on the loopback interface,
with everything in one folder. Needs no root: the daemons run as this user."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
PLACES = "/usr/sbin:/usr/bin:/sbin:/bin"
NODES = ("n1", "n2")
START_S = 30.0

CONFIGURATION = """ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n/tmp
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=5 OverSubscribe=FORCE:4
"""


class CannotRun(Exception):
    """Why there can be no cluster here."""


class Cluster:
    """One such cluster; stop() ends it."""

    def __init__(self, folder: Path) -> None:
        """Raises CannotRun where it does not come up."""
        missing = [name for name in PROGRAMS if shutil.which(name, path=PLACES) is None]
        if missing:
            raise CannotRun(f"Slurm is not installed (no {', '.join(missing)}; Debian: slurmctld slurmd slurm-client munge)")
        self.folder = folder
        self._daemons: list[tuple[str, subprocess.Popen[bytes]]] = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, words: list[str], timeout: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command outside of any allocation; its errors are in its output."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TUTTI_", "SLURM_", "PMI"))}
        return subprocess.run(words, env={**clean, **self.environment, **variables}, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout,
                              check=False)

    def _start(self) -> None:
        for name in ("munge", "state", *NODES, *(f"{node}/tmp" for node in NODES)):
            (self.folder / name).mkdir()
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=self.folder, ports=_free_ports(3)))
        munge = self.folder / "munge"
        self._daemon("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={key}",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self._await(lambda: (munge / "socket").exists())
        self._daemon("slurmctld", "-D", "-c")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node)
        self._await(lambda: self.run(["sinfo", "-h", "-o", "%T %D"], 20).stdout.split() == ["idle", "2"])

    def _daemon(self, name: str, *words: str) -> None:
        log = self.folder / f"{name}-{len(self._daemons)}.out"
        program = str(shutil.which(name, path=PLACES))
        with log.open("wb") as sink:
            self._daemons.append((str(log), subprocess.Popen(
                [program, *words], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env={**os.environ, **self.environment})))

    def _await(self, come) -> None:
        deadline = time.monotonic() + START_S
        while not come():
            ended = [log for log, daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = ended or [log for log, _ in self._daemons]
                said = "; ".join(line for log in logs for line in Path(log).read_text(errors="replace").splitlines()[-2:])
                raise CannotRun(f"Slurm's daemons {'end at once' if ended else 'do not find each other'} here: {said}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends the daemons, the last started first, and whatever a job has left."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _, daemon in reversed(self._daemons):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if daemon.poll() is None:
                        daemon.send_signal(number)
                        daemon.wait(10)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
