"""Launchers: which one a command is, and how its command line is read.

A launcher's options come before the program; which of them take values is needed to find the
program. The tables hold the options that take values; one that is in no table takes none, unless
what follows it can only be its value."""

from __future__ import annotations

import enum
import os
import re
from pathlib import Path

from tutti.errors import UserError
from tutti.launch import known
from tutti.launch.find import which
from tutti.launch.mpi_library import Abi
from tutti.launch.record import Record

ASK_TIMEOUT_S = 15


class UnknownLauncher(UserError):
    """It is there, but tutti does not know how it takes variables for the program."""


class Kind(enum.Enum):
    """How a launcher takes environment variables for the program."""

    HYDRA = "hydra"      # MPICH, Intel MPI, MVAPICH: -genv, -env
    OPENMPI = "openmpi"  # mpirun, prterun: -x
    SLURM = "slurm"      # srun: --export
    FLUX = "flux"        # flux run: --env=NAME=VALUE
    PALS = "pals"        # HPE's mpiexec: --env NAME=VALUE


class Launcher(Record):
    """What `mpiexec --version` told."""

    kind: Kind
    mpi: str      # "MPICH", "Intel MPI", "Open MPI", "Slurm"
    version: str
    path: Path

    @property
    def abi(self) -> Abi | None:
        """The ABI of its own MPI; Slurm has none."""
        return {Kind.HYDRA: Abi.MPICH, Kind.OPENMPI: Abi.OPENMPI}.get(self.kind)


NAMES = ("mpiexec", "mpirun", "mpiexec.hydra", "mpirun.hydra", "mpiexec.mpich", "mpirun.mpich",
         "mpiexec.openmpi", "mpirun.openmpi", "orterun", "prterun", "prun", "srun", "flux")
UNSUPPORTED = ("aprun", "jsrun", "ibrun", "lrun", "palsrun", "mpiexec_mpt",
               "ccc_mprun", "mpiexec.gforker", "mpiexec.smpd")
SUPPORTED_TEXT = "MPICH's or Intel's mpiexec (Hydra), Open MPI's mpirun, prterun or prun, Slurm's srun, flux run, PALS' mpiexec"


def is_launcher_name(word: str) -> bool:
    return os.path.basename(word) in NAMES


def find_program(word: str) -> Path | None:
    """The executable file that a shell would start for this word."""
    found = which(word)
    return Path(found) if found else None


def identify(word: str) -> Launcher:
    """Asks the launcher who it is. Raises UserError for one that is unknown or does not answer."""
    path = find_program(word)
    if path is None:
        raise UserError(f"no launcher '{word}' in PATH; give its full path, or put the folder of your "
                        "MPI's bin into PATH")
    remembered = known.find(str(path))
    if remembered is not None and remembered[0] in [kind.value for kind in Kind]:
        return Launcher(Kind(remembered[0]), remembered[1], remembered[2], path)
    import subprocess

    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace",
                                stdin=subprocess.DEVNULL, check=False, timeout=ASK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"'{word} --version' did not answer within {ASK_TIMEOUT_S} s, so its MPI is not "
                        f"known; supported: {SUPPORTED_TEXT}") from None
    except OSError as error:
        raise UserError(f"cannot start '{word}': {error.strerror}") from None
    launcher = recognise(path, answer.stdout + answer.stderr)
    if launcher is None:
        said = (answer.stdout + answer.stderr).strip().split("\n")[0][:80]
        raise UnknownLauncher(f"'{word}' belongs to no supported MPI (it says: '{said}'); supported: "
                        f"{SUPPORTED_TEXT}")
    known.remember(str(path), (launcher.kind.value, launcher.mpi, launcher.version))
    return launcher


_SIGNS = (
    (re.compile(r"Intel\(R\) MPI Library.*?Version ([\w.]+)"), Kind.HYDRA, "Intel MPI"),
    (re.compile(r"HYDRA build details.*?Version:\s*([\w.]+)", re.DOTALL), Kind.HYDRA, "MPICH"),
    (re.compile(r"\((?:Open MPI|OpenRTE|PRRTE)\) ([\w.]+)"), Kind.OPENMPI, "Open MPI"),
    (re.compile(r"\bprte(?:run)?\b.*?([\d][\w.]+)", re.IGNORECASE), Kind.OPENMPI, "Open MPI"),
    (re.compile(r"^slurm\S* ([\w.-]+)", re.MULTILINE), Kind.SLURM, "Slurm"),
    (re.compile(r"^libflux-core:\s*([\w.-]+)", re.MULTILINE), Kind.FLUX, "Flux"),
    (re.compile(r"\bPALS\b\D*([\d][\w.-]*)"), Kind.PALS, "PALS"),
)


def recognise(path: Path, answer: str) -> Launcher | None:
    for sign, kind, mpi in _SIGNS:
        match = sign.search(answer)
        if match:
            return Launcher(kind, mpi, match.group(1), path)
    return None


# ---- options -------------------------------------------------------------------------------------

_HYDRA_VALUES = {
    2: "genv env",
    1: "n np f file hosts host hostfile machinefile machine rankmap wdir dir path configfile genvlist "
       "envlist memory-alloc-kinds launcher launcher-exec bootstrap bootstrap-exec rmk topolib bind-to "
       "binding map-by membind demux errfile-pattern outfile-pattern gpus-per-proc iface localhost "
       "nameserver order-nodes ppn perhost rr grr prepend-pattern pattern usize umask arch soft "
       "gtool gtoolfile hosts-group s tune tmpdir cpu-bind ckpoint-prefix ckpointlib ckpoint-num "
       "ckpoint-interval ranks-per-proc pmi-aggregate p branch-count gdba a l-pattern",
    0: "genvnone genvall envnone envall enable-x disable-x disable-auto-cleanup "
       "disable-hostname-propagation hybrid-hosts info version pmi-port prepend-rank l "
       "print-all-exitcodes profile skip-launch-node verbose v V help h aps mps gdb nolocal "
       "silent-abort print-rank-map prepend-timestamp prot rr trace check_mpi ordered-output ilp64 noconf "
       "localroot localonly",
}
_OPENMPI_VALUES = {
    2: "mca gmca omca prtemca pmixmca pmca gomca gpmixmca gprtemca",
    1: "n np c N H host hostfile machinefile default-hostfile x map-by rank-by bind-to npernode "
       "npersocket ppr wdir wd path preload-files output-filename output prefix timeout stdin display "
       "runtime-options rankfile rf app am tune cpu-set cpu-list cpus-per-proc cpus-per-rank xterm "
       "tmpdir report-uri report-pid personality dvm dvm-uri launch-agent max-restarts exec-agent "
       "stream-buffering forward-signals add-host add-hostfile debugger debug-daemons-file "
       "mem-bind memory-alloc-kinds num-procs num-procs-per-node pset rtos set-cwd-to-session-dir-name "
       "slot-list system-server-uri server-uri ompi-server ompi-server-wait-time with-ft "
       "env-file spawn-timeout keepalive singleton prtemca-file",
    0: "oversubscribe nooversubscribe allow-run-as-root q quiet v verbose V version h help tag-output "
       "timestamp-output merge-stderr-to-stdout bynode byslot bycore bysocket bind-to-core "
       "bind-to-socket bind-to-none report-bindings display-map display-devel-map display-allocation "
       "display-topo use-hwthread-cpus do-not-launch do-not-resolve enable-recovery continuous "
       "debug-devel nolocal no-local d debug-daemons leave-session-attached pernode disable-recovery "
       "pre-condition index-argv-by-rank noprefix get-stack-traces report-state-on-timeout "
       "report-child-jobs-separately xml set-sid show-progress preload-binary do-not-forward no-ready-msg "
       "novm gpu-support s fwd-mpirun-port mca-base-env-list-none tv debug",
}
_SLURM_VALUES = {
    1: "A account b begin bcast-exclude c cpus-per-task C constraint cluster-constraint comment "
       "container container-id core-spec S cpu-bind cpu-freq cpus-per-gpu d dependency D chdir distribution "
       "m e error epilog export export-file extra extra-node-info B F nodefile G gpus gpu-bind gpu-freq "
       "gpus-per-node gpus-per-socket gpus-per-task gid gres gres-flags hint i input J job-name jobid "
       "L licenses M clusters mail-type mail-user max-threads mcs-label mem mem-bind mem-per-cpu "
       "mem-per-gpu mincpus mpi msg-timeout multi-prog-file N nodes n ntasks network ntasks-per-core "
       "ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres o output open-mode p partition "
       "power priority profile prolog q qos r relative reservation resv-ports signal slurmd-debug "
       "sockets-per-node cores-per-socket threads-per-core switches T threads t time task-epilog "
       "task-prolog thread-spec time-min tmp tres-bind tres-per-task tree-width uid w nodelist wait W "
       "wckey x exclude X-sigterm",
    0: "exclusive contiguous E preserve-env exact external-launcher H hold h help I immediate "
       "interactive K kill-on-bad-exit k no-kill l label multi-prog O overcommit s oversubscribe "
       "overlap pty Q quiet quit-on-interrupt reboot spread-job u unbuffered usage use-min-nodes V version "
       "v verbose X disable-status Z no-allocate bcast compress accel-bind get-user-env nice propagate "
       "whole delay-boot no-shell send-libs",
}

_FLUX_VALUES = {
    1: "n ntasks N nodes c cores-per-task g gpus-per-task q queue B bank t time-limit o setopt S setattr env env-remove "
       "env-file job-name input output error cwd urgency dependency requires requires-file begin-time signal taskmap cores "
       "tasks-per-node tasks-per-core gpus-per-node nslots rlimit conf bg progress cc bcc p add-file broker-opts",
    0: "x exclusive l label-io u unbuffered v verbose V h help dry-run wait watch quiet unbuffered debug",
}
_PALS_VALUES = {
    1: "n np N ppn d depth cpu-bind mem-bind hosts host hostlist hostfile H env umask wdir wd path transfer-dir rlimits procinfo "
       "gpu-bind pmi sstartup ready e R rules soft arch",
    0: "envall envnone envlist exclusive line-buffer label l help h version V verbose v no-transfer transfer configfile abort-on-failure",
}


def _table(groups: dict[int, str]) -> dict[str, int]:
    table: dict[str, int] = {}
    for values in sorted(groups):
        for name in groups[values].split():
            table[name] = values
    return table


_TABLES = {Kind.HYDRA: _table(_HYDRA_VALUES), Kind.OPENMPI: _table(_OPENMPI_VALUES),
           Kind.SLURM: _table(_SLURM_VALUES), Kind.FLUX: _table(_FLUX_VALUES), Kind.PALS: _table(_PALS_VALUES)}
_FLUX_COMMANDS = ("run", "submit")


def options_begin(words: list[str], kind: Kind, launcher: int) -> int:
    """Where a launcher's options begin. Raises UserError where `flux` is not to start a program."""
    at = launcher + 1
    if kind is not Kind.FLUX:
        return at
    if words[at:at + 1] == ["mini"]:
        at += 1
    if at >= len(words) or words[at] not in _FLUX_COMMANDS:
        raise UserError("of flux, tutti run takes `flux run` and `flux submit`; inside `flux alloc` or a batch script, put "
                        "tutti run in front of those")
    return at + 1


class Option(Record):
    """One option as it stands on the command line: words [at, end)."""

    name: str  # without dashes
    values: list[str]
    at: int
    end: int


class Segment(Record):
    """One program of a command line ("MPMD" command lines have several, separated by colons).
    Its options are words [start, program), the program and its arguments [program, end)."""

    start: int
    program: int
    end: int
    options: list[Option]

    def value_of(self, *names: str) -> str | None:
        for option in self.options:
            if option.name in names and option.values:
                return option.values[-1]
        return None

    def has(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)


def parse(words: list[str], kind: Kind, start: int) -> list[Segment]:
    """Splits words[start:], which follow the launcher's name, into its programs. A segment without
    a program has program == end (`mpiexec -configfile FILE`, `mpirun --version`)."""
    segments = []
    while True:
        segment = _parse_segment(words, kind, start)
        segments.append(segment)
        if segment.end >= len(words):
            return segments
        start = segment.end + 1  # after the colon


def _parse_segment(words: list[str], kind: Kind, start: int) -> Segment:
    options: list[Option] = []
    at = start
    while at < len(words) and words[at] != ":" and words[at].startswith("-") and len(words[at]) > 1:
        if words[at] == "--":
            at += 1
            break
        option = _parse_option(words, kind, at)
        options.append(option)
        at = option.end
    end = at
    while end < len(words) and words[end] != ":":
        end += 1
    return Segment(start, at, end, options)


def _parse_option(words: list[str], kind: Kind, at: int) -> Option:
    table = _TABLES[kind]
    word = words[at]
    name = word.lstrip("-")
    if "=" in name:
        name, _, value = name.partition("=")
        # Hydra also reads "-genv NAME=VALUE", but never an option of two values joined by "=".
        return Option(name, [value], at, at + 1)
    single_dash = not word.startswith("--")
    if kind is Kind.SLURM and single_dash and len(name) > 1:
        return Option(name[0], [name[1:]], at, at + 1)  # -n4
    if name not in table and single_dash and len(name) > 1 and name[1:].isdigit() and name[0] in table:
        return Option(name[0], [name[1:]], at, at + 1)
    count = table.get(name)
    if count is None:
        count = 1 if _looks_like_value(words, at + 1) else 0
    if count == 2 and at + 1 < len(words) and kind is Kind.HYDRA and "=" in words[at + 1]:
        count = 1
    end = min(at + 1 + count, len(words))
    return Option(name, words[at + 1:end], at, end)


def _looks_like_value(words: list[str], at: int) -> bool:
    """Whether the word after an unknown option is its value: it is no option and no program, and
    something follows that may be the program."""
    if at + 1 >= len(words) or words[at].startswith("-") or words[at] == ":":
        return False
    return find_program(words[at]) is None
