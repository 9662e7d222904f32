"""The lab itself: starts the switch and its nodes, runs commands there, counts, and makes faults."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tutti import library_folder
from tutti.errors import Failure, UserError
from tutti.lab import launchers, values

HEAD = "head"          # the node of launchers; it is connected without delay and runs no ranks
MOST_NODES = 128
MTUS = (576, 65000)
START_S, ANSWER_S, END_S = 60.0, 30.0, 10.0
_PIECE_BYTES = 1 << 16


def why_not() -> str | None:
    """Why there can be no lab on this machine, in one line; None where there can."""
    if os.geteuid() != 0:
        return "a lab needs root, to make network namespaces: sudo tutti lab ..."
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "a lab needs the kernel's TUN/TAP driver, but there is no /dev/net/tun that can be opened"
    return None


class Command:
    """A command that runs on a node. Ends (SIGTERM) when it is closed before its time."""

    def __init__(self, connection: socket.socket, words: list[str]) -> None:
        self._connection = connection
        self._status: int | None = None
        self.words = words

    def send_signal(self, number: int) -> None:
        """To the command itself, not to what it has started."""
        with contextlib.suppress(OSError):
            self._connection.send(bytes([number]))

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, as a shell gives it (128 + n: by signal n). Raises subprocess.TimeoutExpired, and
        Failure when the node is gone."""
        if self._status is None:
            # poll(2) and not select(2): a program with many files open may come here
            poller = select.poll()
            poller.register(self._connection, select.POLLIN)
            if not poller.poll(None if timeout is None else timeout * 1e3):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.words, timeout)
            answer = self._connection.recv(4)
            if len(answer) != 4:
                raise Failure(f"the node that ran {self.words[0]} is gone")
            self._status = struct.unpack("=i", answer)[0]
            self.close()
        return self._status

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def close(self) -> None:
        self._connection.close()


class Lab:
    """Nodes n0 .. n<nodes-1>, and one for launchers (HEAD), until close(), or until this process ends in whatever
    way. A context manager. Raises UserError for values that make no sense, Failure where a lab cannot be had
    (why_not() tells before). Commands and methods may be used by several threads."""

    def __init__(self, nodes: int, *, latency: str = "0", rate: str = "0", loss: float = 0, duplicate: float = 0,
                 reorder: float = 0, seed: int = 1, mtu: int = 9000) -> None:
        if not 1 <= nodes <= MOST_NODES:
            raise UserError(f"--nodes {nodes}: expected 1 to {MOST_NODES}")
        if not MTUS[0] <= mtu <= MTUS[1]:
            raise UserError(f"--mtu {mtu}: expected {MTUS[0]} to {MTUS[1]} bytes")
        if not 0 <= seed < 1 << 53:
            raise UserError(f"--seed {seed}: expected 0 to 2^53 - 1")
        self.latency_ns = values.nanoseconds(latency, "--latency")
        self.bits_per_second = values.bits_per_second(rate, "--rate")
        options = {
            "nodes": nodes, "mtu": mtu, "seed": seed, "latency-ns": self.latency_ns,
            "bits-per-second": self.bits_per_second, "loss": values.probability(loss, "--loss"),
            "duplicate": values.probability(duplicate, "--duplicate"),
            "reorder": values.probability(reorder, "--reorder")}
        reason = why_not()
        if reason is not None:
            raise Failure(reason)
        self.nodes = [f"n{number}" for number in range(nodes)]
        self.agent = _program("tutti-lab-agent")
        self._lock = threading.Lock()
        self._start(options)

    def _start(self, options: dict[str, float]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [str(_program("tutti-lab-net")), "--control", str(theirs.fileno())]
            for name, value in options.items():
                words += [f"--{name}", repr(value)]
            self._switch = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, start_new_session=True)
        self._control.settimeout(START_S)
        try:
            self.precedence = self._receive() == "ready"
        except BaseException:
            self.close()
            raise
        self._control.settimeout(ANSWER_S)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the lab and everything in it; returns when all is gone."""
        self._control.close()
        try:
            self._switch.wait(END_S)
        except subprocess.TimeoutExpired:
            self._switch.kill()
            self._switch.wait()

    # ---- commands ------------------------------------------------------------------------------

    def command_line(self, words: Sequence[str]) -> list[str]:
        """With a launcher in it: the command line that starts the ranks on the nodes."""
        return launchers.spread(list(words), self.nodes)

    def start(self, words: Sequence[str], *, node: str = HEAD, env: Mapping[str, str] | None = None,
              cwd: str | Path | None = None, stdin: int | IO[Any] = 0, stdout: int | IO[Any] = 1,
              stderr: int | IO[Any] = 2) -> Command:
        """Starts a command on a node, as it is: in this folder and environment, on these descriptors (which may be
        closed afterwards)."""
        environment = {**(os.environ if env is None else env), **launchers.environment(self.agent)}
        ours, theirs = socket.socketpair()
        with theirs:
            self._ask(f"connect {node}", theirs.fileno())
        body = _encode(os.path.abspath(cwd or "."), [os.fspath(word) for word in words], environment)
        descriptors = [file if isinstance(file, int) else file.fileno() for file in (stdin, stdout, stderr)]
        try:
            # A short first message: what does not fit into the socket is sent without descriptors.
            socket.send_fds(ours, [body[:4]], descriptors)
            ours.sendall(body[4:])
        except OSError:
            ours.close()
            raise Failure(f"node {node} does not answer") from None
        return Command(ours, list(words))

    def run(self, words: Sequence[str], *, node: str = HEAD, env: Mapping[str, str] | None = None,
            cwd: str | Path | None = None, input: str = "", timeout: float | None = None,
            ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end and gives its exit status and what it said. On the head, a launcher starts its
        ranks on the nodes. When the time is over everything on all nodes is killed, and
        subprocess.TimeoutExpired raised, with what was said until then."""
        line = self.command_line(words) if node == HEAD else list(words)
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            source.write(input.encode())
            source.seek(0)
            command = self.start(line, node=node, env=env, cwd=cwd, stdin=source, stdout=out, stderr=err)
            try:
                status = command.wait(timeout)
            except subprocess.TimeoutExpired as expired:
                self.clear()
                raise subprocess.TimeoutExpired(line, expired.timeout, _text(out), _text(err)) from None
            finally:
                command.close()
            return subprocess.CompletedProcess(line, status, _text(out), _text(err))

    def clear(self) -> None:
        """Kills everything that runs on the nodes; the nodes stay."""
        for node in (HEAD, *self.nodes):
            self._ask(f"clear {node}")

    # ---- the network ---------------------------------------------------------------------------

    def switch_counters(self) -> dict[str, Any]:
        """What the switch has carried since the start or the last reset: "links", a list with from, to, frames,
        bytes (of Ethernet frames), lost, duplicated, reordered, cut, overflowed; "ports", a list with node, and the
        bytes that passed its cable, sent and received (a multicast is sent once); "late", by how much deliveries
        were late (what the lab adds by itself); "unknown" and "refused", frames that reached nobody."""
        return json.loads(self._ask("counters"))

    def traffic(self) -> tuple[int, int]:
        """(frames, bytes) that were delivered from node to node; the launchers' node does not count."""
        links = [link for link in self.switch_counters()["links"] if HEAD not in (link["from"], link["to"])]
        return sum(link["frames"] for link in links), sum(link["bytes"] for link in links)

    def reset_counters(self) -> None:
        self._ask("reset")

    def cut(self, node: str, other: str | None = None) -> None:
        """Takes a node off the network, or only its link to another one. Nothing there ends."""
        self._ask(f"cut {node}" if other is None else f"cut-link {node} {other}")

    def heal(self, node: str, other: str | None = None) -> None:
        """The opposite of cut()."""
        self._ask(f"heal {node}" if other is None else f"heal-link {node} {other}")

    def kill(self, node: str) -> None:
        """Ends a node at once and for good, as a power failure does."""
        self._ask(f"kill {node}")

    def change(self, *, latency: str | None = None, rate: str | None = None, loss: float | None = None,
               duplicate: float | None = None, reorder: float | None = None, groups: bool | None = None) -> None:
        """Changes the network's conditions from now on. `groups`: whether the switch carries IP multicast."""
        wanted = {
            "latency_ns": None if latency is None else values.nanoseconds(latency, "latency"),
            "bits_per_second": None if rate is None else values.bits_per_second(rate, "rate"),
            "loss": None if loss is None else values.probability(loss, "loss"),
            "duplicate": None if duplicate is None else values.probability(duplicate, "duplicate"),
            "reorder": None if reorder is None else values.probability(reorder, "reorder"),
            "groups": None if groups is None else int(groups)}
        for name, value in wanted.items():
            if value is not None:
                self._ask(f"set {name} {value!r}")

    # ---- the switch's control connection ---------------------------------------------------------

    def _ask(self, command: str, *descriptors: int) -> str:
        with self._lock:
            try:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
                self._control.sendmsg([command.encode()], rights)
            except OSError:
                raise Failure("the lab has ended") from None
            return self._receive()

    def _receive(self) -> str:
        answer, more = "", True
        while more:  # a packet that begins with an end of line is followed by another one
            try:
                piece = self._control.recv(_PIECE_BYTES).decode()
            except TimeoutError:
                raise Failure("the lab's switch does not answer") from None
            except OSError:
                raise Failure("the lab has ended") from None
            if not piece:
                raise Failure("the lab's switch has died")
            more = piece.startswith("\n")
            answer += piece.removeprefix("\n")
        if answer.startswith("!"):
            raise Failure(f"no lab: {answer[1:]}" if not self._started() else answer[1:])
        return answer

    def _started(self) -> bool:
        return hasattr(self, "precedence")


def _program(name: str) -> Path:
    path = library_folder() / name
    if not os.access(path, os.X_OK):
        raise Failure(f"{path} is missing: tutti is not completely installed (pip install --force-reinstall)")
    return path


def _encode(folder: str, words: list[str], environment: Mapping[str, str]) -> bytes:
    """A request, as lab/message.hpp describes it."""
    texts = [folder, *words, *(f"{name}={value}" for name, value in environment.items())]
    body = struct.pack("=II", len(words), len(environment))
    body += b"".join(os.fsencode(text) + b"\0" for text in texts)
    return struct.pack("=I", len(body)) + body


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def stand_in_for(command: Command) -> int:
    """Waits for a command and passes this process's signals on to it. Main thread only."""
    before = {number: signal.signal(number, lambda got, _: command.send_signal(got)) for number in FORWARDED}
    try:
        return command.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

