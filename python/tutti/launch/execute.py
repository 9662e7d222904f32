"""Starts a command and stands in for it: same standard streams, same exit status, signals passed
on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGCONT)
_SI_KERNEL = 128       # the terminal sent it, to the whole foreground group: the child has it already
_PR_SET_PDEATHSIG = 1


def execute(command: list[str], environment: dict[str, str]) -> int:
    """Runs the command to its end; the shell's exit status of it. Raises OSError when it cannot be
    started."""
    watched = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()

    def in_child() -> None:
        # Should this process be killed, the launcher is told to end, and the job with it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        process = subprocess.Popen(command, env=environment, preexec_fn=in_child)  # noqa: PLW1509
        while process.poll() is None:
            _pass_on(process, signal.sigwaitinfo(watched))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _pass_on(process: subprocess.Popen[bytes], event: signal.struct_siginfo) -> None:
    if event.si_signo == signal.SIGCHLD or event.si_code == _SI_KERNEL:
        return
    with contextlib.suppress(ProcessLookupError):  # it may have ended meanwhile; poll() collects it
        process.send_signal(event.si_signo)
