"""The plan of a run: how the launcher is to pass the preload library on to the programs.

Only the program gets the preload, never the launcher (so LD_PRELOAD is not simply set here). What
the user preloads already stays, in front: tools that intercept MPI then see the calls first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tutti.errors import Failure, UserError
from tutti.launch import launcher as launchers
from tutti.launch.launcher import Kind, Launcher, Option, Segment
from tutti.launch.mpi_library import Abi
from tutti.launch.program import Program, Reach, examine, missing
from tutti.launch.record import Record

PRELOAD = "LD_PRELOAD"
LIBRARY = "libtutti-preload.so"  # finds out by itself which MPI a process has
SPLIT = "libtutti-split-{}.so"   # in front of it with --dcp-from-job; has only the functions that the MPI has, too
REVOKE = "libtutti-revoke.so"      # has MPIX_Comm_revoke: only where the MPI has it
HOST_OPTIONS = ("hosts", "host", "H", "f", "file", "hostfile", "machinefile", "default-hostfile", "w",
                "nodelist", "hosts-group")


class Plan(Record):
    """What `tutti run` will start."""

    command: list[str]
    environment: dict[str, str]
    launcher: Launcher | None
    programs: list[Program] = []  # noqa: RUF012 (copied)
    preload: Path | None = None                     # None: the job runs on its MPI alone
    notes: list[str] = []  # noqa: RUF012; lines for standard error
    elsewhere: bool = False                         # its programs may all run on other machines than this


def make_plan(words: list[str], settings: dict[str, str], environment: dict[str, str],
              library_folder: Path) -> Plan:
    """The plan for a command line. `settings` are the TUTTI_* variables that the programs must see.
    Raises UserError when the command line cannot work, Failure when tutti is not complete."""
    at = _launcher_position(words, library_folder)
    launcher = None if at is None else _identify(words, at, library_folder)
    if launcher is None or at is None:
        return _plan_bare(words, settings, environment, library_folder)
    plan = Plan(list(words), {**environment, **settings}, launcher)
    segments = launchers.parse(words, launcher.kind, launchers.options_begin(words, launcher.kind, at))
    _examine_segments(plan, words, segments, environment)
    if not plan.programs:
        return plan  # mpiexec --version: nothing is started
    if not _within_reach(plan, launcher):
        return plan
    plan.preload = _library(library_folder, LIBRARY)
    libraries = [*_split_library(plan, settings, library_folder), *_revoke_library(launcher, library_folder), plan.preload]
    job = _Job(words, segments, at, settings, environment.get(PRELOAD), libraries)
    plan.command = {Kind.HYDRA: _for_hydra, Kind.OPENMPI: _for_openmpi, Kind.SLURM: _for_slurm, Kind.FLUX: _for_flux,
                    Kind.PALS: _for_pals}[launcher.kind](job)
    return plan


def _launcher_position(words: list[str], library_folder: Path) -> int | None:
    """Where the launcher stands: first, or behind wrappers such as `timeout 60` or `env A=B`."""
    for at, word in enumerate(words):
        if launchers.is_launcher_name(word) and launchers.find_program(word) is not None:
            return at
        if launchers.is_launcher_name(word) and at == 0:
            return at  # identify() says that it is missing
    base = Path(words[0]).name
    if base in launchers.UNSUPPORTED:
        raise UserError(f"the launcher '{base}' is not supported (supported: {launchers.SUPPORTED_TEXT}); with it, run: "
                        f"{manual_line(words, library_folder)}")
    return None


def _identify(words: list[str], at: int, library_folder: Path) -> Launcher:
    try:
        return launchers.identify(words[at])
    except launchers.UnknownLauncher as error:
        raise UserError(f"{error}; with it, run: {manual_line(words[at:], library_folder)}") from None


def manual_line(words: list[str], library_folder: Path) -> str:
    """The command line that does without `tutti run` what it would do: any launcher can start `env`. The program is the
    first word that is one; options and their values are none."""
    preload = f"env {PRELOAD}={library_folder / LIBRARY}"
    for at in range(1, len(words)):
        if not words[at].startswith("-") and launchers.find_program(words[at]) is not None:
            return " ".join([*words[:at], preload, *words[at:]])
    return " ".join([*words, preload, "PROGRAM"])


# ---- programs and their ABIs ---------------------------------------------------------------------


def _examine_segments(plan: Plan, words: list[str], segments: list[Segment],
                      environment: dict[str, str]) -> None:
    folder = segments[0].value_of("wdir", "wd", "D", "chdir")
    remote = any(segment.has(*HOST_OPTIONS) for segment in segments)
    plan.elsewhere = remote or (plan.launcher is not None and plan.launcher.kind in (Kind.SLURM, Kind.FLUX, Kind.PALS))
    commands = [(words[segment.program:segment.end], segment.value_of("wdir", "wd", "D", "chdir") or folder)
                for segment in segments]
    commands += [(command, folder) for command in _commands_in_files(segments, plan)]
    for command, place in commands:
        if not command:
            continue
        program = examine(command, place, environment)
        if program.path is None and not remote:
            raise missing(program)
        plan.programs.append(program)


def _commands_in_files(segments: list[Segment], plan: Plan) -> list[list[str]]:
    """The commands in `mpiexec -configfile FILE` and `mpirun --app FILE`."""
    assert plan.launcher is not None
    commands = []
    for name in (segment.value_of("configfile", "app") for segment in segments):
        if name is None:
            continue
        import shlex

        try:
            lines = Path(name).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            raise UserError(f"cannot read the launcher's file of commands '{name}'") from None
        for line in lines:
            try:
                inner = shlex.split(line, comments=True)
            except ValueError as error:
                raise UserError(f"{name}: {error} in '{line.strip()}'") from None
            for segment in launchers.parse(inner, plan.launcher.kind, 0) if inner else ():
                commands.append(inner[segment.program:segment.end])
    return commands


def _within_reach(plan: Plan, launcher: Launcher) -> bool:
    """Whether all programs can be taken over: a job is taken over as a whole or not at all."""
    static = next((program for program in plan.programs if program.reach is Reach.STATIC), None)
    if static is not None:
        plan.notes.append(f"{static.name} is out of reach ({static.why}): the job runs on "
                          f"{launcher.mpi} alone; link the program dynamically")
        return False
    for program in plan.programs:
        if program.abi and launcher.abi and (program.abi is Abi.OPENMPI) != (launcher.abi is Abi.OPENMPI):
            plan.notes.append(f"warning: {program.name} was built for another MPI than the launcher's "
                              f"({program.why}, but {launcher.path} is {launcher.mpi} {launcher.version}): "
                              "its ranks may not find each other")
    return True


def _split_library(plan: Plan, settings: dict[str, str], folder: Path) -> list[Path]:
    """What --dcp-from-job preloads in addition; empty without it."""
    if settings.get("TUTTI_DCP_FROM_JOB", "").lower() not in ("1", "true", "on", "yes"):
        return []
    assert plan.launcher is not None
    abi = plan.launcher.abi or next((program.abi for program in plan.programs if program.abi), None)
    if abi is None:
        raise UserError(f"--dcp-from-job must know the MPI before the job starts, and neither {plan.launcher.path} nor "
                        f"{plan.programs[0].name} says which it is; use that MPI's own mpiexec")
    return [_library(folder, SPLIT.format("openmpi" if abi is Abi.OPENMPI else "mpich"))]


def _revoke_library(launcher: Launcher, folder: Path) -> list[Path]:
    """What is preloaded in addition where programs can revoke communicators: Open MPI since 5.0."""
    major = launcher.version.split(".")[0]
    can = launcher.kind is Kind.OPENMPI and major.isdigit() and int(major) >= 5
    return [_library(folder, REVOKE)] if can else []


def _library(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise Failure(f"{path} is missing: tutti is not completely installed (pip install --force-reinstall)")
    if any(character in str(path) for character in " :;,"):
        raise Failure(f"the loader cannot preload from a path with a space, colon, semicolon or comma: "
                      f"{path}; install tutti elsewhere")
    return path


def _joined(present: str | None, libraries: list[Path]) -> str:
    """The value of LD_PRELOAD: what was there first, then tutti. Another one of tutti's (of a
    `tutti run` around this one) would take the same calls twice, and goes."""
    words = [word for word in (present or "").replace(" ", ":").split(":") if word]
    kept = [word for word in words if not Path(word).name.startswith(("libtutti-preload", "libtutti-split", "libtutti-revoke"))]
    return ":".join([*kept, *map(str, libraries)])


# ---- one function per launcher -------------------------------------------------------------------


def _plan_bare(words: list[str], settings: dict[str, str], environment: dict[str, str],
               library_folder: Path) -> Plan:
    """A program without a launcher: a job of one rank, or a script that starts its own launcher, which
    then has the preload too; it does nothing there."""
    plan = Plan(list(words), {**environment, **settings}, None)
    program = examine(words, None, environment)
    if program.path is None:
        raise UserError(f"no executable '{words[0]}'; expected a launcher with its program, such as "
                        "mpiexec -n 4 ./app (a report into a file: --report=FILE)")
    plan.programs.append(program)
    if program.reach is Reach.STATIC:
        plan.notes.append(f"{program.name} is out of reach ({program.why}): it runs on its own MPI alone; "
                          "link it dynamically")
        return plan
    plan.preload = _library(library_folder, LIBRARY)
    plan.environment[PRELOAD] = _joined(environment.get(PRELOAD), [plan.preload])
    return plan


class _Job(Record):
    """A launcher's command line, read, and what is to be added to it."""

    words: list[str]
    segments: list[Segment]
    launcher: int               # its place in words
    settings: dict[str, str]
    present: str | None         # LD_PRELOAD of this environment
    libraries: list[Path]


def _preload_in(option: Option) -> str | None:
    """The value that an option (-genv, -env, -x) gives to LD_PRELOAD, or None."""
    if len(option.values) == 2 and option.values[0] == PRELOAD:
        return option.values[1]
    if option.values and option.values[-1].startswith(PRELOAD + "="):
        return option.values[-1][len(PRELOAD) + 1:]
    return None


def _without(words: list[str], start: int, end: int, drop: list[Option]) -> list[str]:
    dropped = {at for option in drop for at in range(option.at, option.end)}
    return [words[at] for at in range(start, end) if at not in dropped]


def _for_hydra(job: _Job) -> list[str]:
    """-genv for all programs; where the user gave one a preload of its own with -env, there too."""
    options = [option for segment in job.segments for option in segment.options]
    shared = [option for option in options if option.name == "genv" and _preload_in(option) is not None]
    present = _preload_in(shared[-1]) if shared else job.present
    command = job.words[:job.launcher + 1]
    for name, value in job.settings.items():
        command += ["-genv", name, value]
    command += ["-genv", PRELOAD, _joined(present, job.libraries)]
    for number, segment in enumerate(job.segments):
        own = [option for option in segment.options if option.name == "env" and _preload_in(option) is not None]
        command += [":"] if number else []
        command += _without(job.words, segment.start, segment.program, shared + own)
        if own:
            command += ["-env", PRELOAD, _joined(_preload_in(own[-1]), job.libraries)]
        command += job.words[segment.program:segment.end]
    return command


def _for_openmpi(job: _Job) -> list[str]:
    """-x in front of every program: Open MPI keeps the variables of each program apart."""
    command = job.words[:job.segments[0].start]
    for number, segment in enumerate(job.segments):
        own = [option for option in segment.options if option.name == "x" and _preload_in(option) is not None]
        bare = [option for option in segment.options if option.name == "x" and option.values == [PRELOAD]]
        command += [":"] if number else []
        if segment.program < segment.end or segment.has("app"):
            for name, value in job.settings.items():
                command += ["-x", f"{name}={value}"]
            present = _preload_in(own[-1]) if own else job.present
            command += ["-x", f"{PRELOAD}={_joined(present, job.libraries)}"]
        command += _without(job.words, segment.start, segment.program, own + bare)
        command += job.words[segment.program:segment.end]
    return command


def _for_slurm(job: _Job) -> list[str]:
    """--export: the preload by value; tutti's settings by name, because values may hold commas."""
    exports = [option for option in job.segments[0].options if option.name == "export"]
    wanted = exports[-1].values[-1] if exports and exports[-1].values else "ALL"
    parts = [] if wanted == "NONE" else [part for part in wanted.split(",") if part]
    own = [part for part in parts if part.startswith(PRELOAD + "=")]
    present = own[-1][len(PRELOAD) + 1:] if own else job.present
    parts = [part for part in parts if part not in own and part != PRELOAD]
    if "ALL" not in parts:
        parts += [name for name in job.settings if name not in parts]
    parts.append(f"{PRELOAD}={_joined(present, job.libraries)}")
    rest = _without(job.words, job.launcher + 1, len(job.words), exports)
    return [*job.words[:job.launcher + 1], "--export=" + ",".join(parts), *rest]


def _for_flux(job: _Job) -> list[str]:
    """--env=NAME=VALUE, after the user's own rules: the last one counts."""
    return _in_front_of_programs(job, lambda name, value: [f"--env={name}={value}"])


def _for_pals(job: _Job) -> list[str]:
    """--env NAME=VALUE for each program."""
    return _in_front_of_programs(job, lambda name, value: ["--env", f"{name}={value}"])


def _in_front_of_programs(job: _Job, words_for: Callable[[str, str], list[str]]) -> list[str]:
    command = job.words[:job.segments[0].start]
    for number, segment in enumerate(job.segments):
        own = [option for option in segment.options if option.name == "env" and _preload_in(option) is not None]
        command += [":"] if number else []
        command += _without(job.words, segment.start, segment.program, own)
        if command[-1:] == ["--"]:  # the end of the options
            command.pop()
        present = _preload_in(own[-1]) if own else job.present
        for name, value in {**job.settings, PRELOAD: _joined(present, job.libraries)}.items():
            command += words_for(name, value)
        command += job.words[segment.program:segment.end]
    return command
