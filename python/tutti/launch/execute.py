"""Starts a command and stands in for it: same standard streams, same exit status, signals passed
on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGCONT)
_SI_KERNEL = 128       # the terminal sent it, to the whole foreground group: the child has it already
_PR_SET_PDEATHSIG = 1
_LOOK_S, _LOOK_MOST_S = 0.2, 2.0  # between looks: first, and at most


def execute(command: list[str], environment: dict[str, str], look: Callable[[], bool] = lambda: True) -> int:
    """Runs the command to its end; the shell's exit status of it. `look` is called now and then while it runs, until it
    gives True. Raises OSError when the command cannot be started."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    watched = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        child = _start(command, environment, prctl, before)
        seen, pause = False, _LOOK_S
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            event = signal.sigwaitinfo(watched) if seen else signal.sigtimedwait(watched, pause)
            if event is not None:
                _pass_on(child, event)
            else:
                seen, pause = look(), min(2 * pause, _LOOK_MOST_S)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(command: list[str], environment: dict[str, str], prctl, mask: set) -> int:
    """The process number of the started command: what subprocess does, without the time that its import takes."""
    parent = os.getpid()
    report, failure = os.pipe()  # closed by exec, or the number of its error
    child = os.fork()
    if child == 0:
        try:
            # Should this process be killed, the launcher is told to end, and the job with it.
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() == parent:
                for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failure)
    with open(report, "rb") as answer:
        number = answer.read()
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return child


def _pass_on(child: int, event: signal.struct_siginfo) -> None:
    if event.si_signo == signal.SIGCHLD or event.si_code == _SI_KERNEL:
        return
    with contextlib.suppress(ProcessLookupError):  # it may have ended meanwhile; waitpid() collects it
        os.kill(child, event.si_signo)
