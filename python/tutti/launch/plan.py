"""The plan of a run: which preload library goes to which program, and how the launcher takes it.

Only the program gets the preload, never the launcher (so LD_PRELOAD is not simply set here). What
the user preloads already stays, in front: tools that intercept MPI then see the calls first."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tutti.errors import Failure, UserError
from tutti.launch import launcher as launchers
from tutti.launch.elf import Abi
from tutti.launch.launcher import Kind, Launcher, Option, Segment
from tutti.launch.program import Program, Reach, examine, missing

PRELOAD = "LD_PRELOAD"
HOST_OPTIONS = ("hosts", "host", "H", "f", "file", "hostfile", "machinefile", "default-hostfile", "w",
                "nodelist", "hosts-group")


@dataclass
class Plan:
    """What `tutti run` will start."""

    command: list[str]
    environment: dict[str, str]
    launcher: Launcher | None
    programs: list[Program] = field(default_factory=list)
    preloads: list[Path] = field(default_factory=list)  # in the order of programs; empty: native
    notes: list[str] = field(default_factory=list)      # lines for standard error


def make_plan(words: list[str], settings: dict[str, str], environment: dict[str, str], library_folder: Path,
              forced: Abi | None = None) -> Plan:
    """The plan for a command line. `settings` are the TUTTI_* variables that the programs must see.
    Raises UserError when the command line cannot work, Failure when tutti is not complete."""
    at = _launcher_position(words)
    launcher = None if at is None else launchers.identify(words[at])
    if launcher is None or at is None:
        return _plan_bare(words, settings, environment, library_folder, forced)
    plan = Plan(list(words), {**environment, **settings}, launcher)
    segments = launchers.parse(words, launcher.kind, at + 1)
    _examine_segments(plan, words, segments, environment)
    if not plan.programs:
        return plan  # mpiexec --version: nothing is started
    abis = _choose_abis(plan, launcher, forced)
    if abis is None:
        return plan
    plan.preloads = [_library(library_folder, abi) for abi in abis]
    if launcher.kind is Kind.HYDRA:
        plan.command = _for_hydra(plan, words, segments, at, settings)
    elif launcher.kind is Kind.OPENMPI:
        plan.command = _for_openmpi(plan, words, segments, settings)
    else:
        plan.command = _for_slurm(plan, words, segments, at, settings)
    return plan


def _launcher_position(words: list[str]) -> int | None:
    """Where the launcher stands: first, or behind wrappers such as `timeout 60` or `env A=B`."""
    for at, word in enumerate(words):
        if launchers.is_launcher_name(word) and launchers.find_program(word) is not None:
            return at
        if launchers.is_launcher_name(word) and at == 0:
            return at  # identify() says that it is missing
    base = Path(words[0]).name
    if base in launchers.UNSUPPORTED:
        raise UserError(f"the launcher '{base}' is not supported; supported: {launchers.SUPPORTED_TEXT}")
    return None


# ---- programs and their ABIs ---------------------------------------------------------------------


def _examine_segments(plan: Plan, words: list[str], segments: list[Segment],
                      environment: dict[str, str]) -> None:
    folder = segments[0].value_of("wdir", "wd", "D", "chdir")
    remote = any(segment.has(*HOST_OPTIONS) for segment in segments)
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


def _choose_abis(plan: Plan, launcher: Launcher, forced: Abi | None) -> list[Abi] | None:
    """One ABI per program, or None when the job has to stay native; says why in the notes."""
    static = next((program for program in plan.programs if program.reach is Reach.STATIC), None)
    if static is not None:
        plan.notes.append(f"{static.name} is out of reach ({static.why}): the job runs on "
                          f"{launcher.mpi} alone; link the program dynamically")
        return None
    if forced is not None:
        return [forced] * len(plan.programs)
    abis = []
    known = next((program.abi for program in plan.programs if program.abi is not None), None)
    for program in plan.programs:
        abi = program.abi or known or launcher.abi
        if abi is None:
            raise UserError(f"cannot tell which MPI '{program.name}' uses ({program.why}); say it with "
                            "--abi mpich, --abi abi or --abi openmpi")
        if launcher.abi is not None and (abi is Abi.OPENMPI) != (launcher.abi is Abi.OPENMPI):
            plan.notes.append(f"warning: {program.name} was built for another MPI than the launcher's "
                              f"({program.why}, but {launcher.path} is {launcher.mpi} {launcher.version}): "
                              "its ranks may not find each other")
        abis.append(abi)
    return abis


def _library(folder: Path, abi: Abi) -> Path:
    path = folder / abi.preload
    if not path.is_file():
        raise Failure(f"{path} is missing: tutti is not completely installed (pip install --force-reinstall)")
    if any(character in str(path) for character in " :;,"):
        raise Failure(f"the loader cannot preload from a path with a space, colon, semicolon or comma: "
                      f"{path}; install tutti elsewhere")
    return path


def _joined(present: str | None, library: Path) -> str:
    """The value of LD_PRELOAD: what was there first, then tutti. Another preload library of tutti's
    (of a `tutti run` around this one) would take the same calls twice, and goes."""
    words = [word for word in (present or "").replace(" ", ":").split(":") if word]
    kept = [word for word in words if not Path(word).name.startswith("libtutti-preload-")]
    return ":".join([*kept, str(library)])


# ---- one function per launcher -------------------------------------------------------------------


def _plan_bare(words: list[str], settings: dict[str, str], environment: dict[str, str],
               library_folder: Path, forced: Abi | None) -> Plan:
    """A program without a launcher: a job of one rank, or a script that starts its own launcher."""
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
    abi = forced or program.abi
    if abi is None:
        raise UserError(f"cannot tell which MPI '{program.name}' uses ({program.why}); put tutti run in "
                        "front of the launcher, or say it with --abi mpich, --abi abi or --abi openmpi")
    library = _library(library_folder, abi)
    plan.preloads = [library]
    plan.environment[PRELOAD] = _joined(environment.get(PRELOAD), library)
    return plan


def _environment_option(option: Option, name: str) -> str | None:
    """The value that an option (-genv, -env, -x) gives to the variable `name`, or None."""
    if option.values and option.values[0] == name and len(option.values) == 2:
        return option.values[1]
    if option.values and option.values[-1].startswith(name + "="):
        return option.values[-1][len(name) + 1:]
    return None


def _without(words: list[str], start: int, end: int, drop: list[Option]) -> list[str]:
    dropped = {at for option in drop for at in range(option.at, option.end)}
    return [words[at] for at in range(start, end) if at not in dropped]


def _for_hydra(plan: Plan, words: list[str], segments: list[Segment], at: int,
               settings: dict[str, str]) -> list[str]:
    """-genv for all programs; -env in front of a program that needs another library."""
    options = [option for segment in segments for option in segment.options]
    shared = [o for o in options if o.name == "genv" and _environment_option(o, PRELOAD) is not None]
    present = _environment_option(shared[-1], PRELOAD) if shared else plan.environment.get(PRELOAD)
    command = words[:at + 1]
    for name, value in settings.items():
        command += ["-genv", name, value]
    command += ["-genv", PRELOAD, _joined(present, plan.preloads[0])]
    library = iter(plan.preloads)
    in_file = sum(segment.program < segment.end for segment in segments) < len(plan.preloads)
    if in_file and any(needed != plan.preloads[0] for needed in plan.preloads):
        raise UserError("the programs in a -configfile need different libraries of tutti's; build them "
                        "with the same MPI, or write them on the command line, separated by ':'")
    for number, segment in enumerate(segments):
        own = [o for o in segment.options if o.name == "env" and _environment_option(o, PRELOAD) is not None]
        command += [":"] if number else []
        command += _without(words, segment.start, segment.program, shared + own)
        if segment.program < segment.end:
            needed = next(library)
            if own or needed != plan.preloads[0]:
                before = _environment_option(own[-1], PRELOAD) if own else present
                command += ["-env", PRELOAD, _joined(before, needed)]
        command += words[segment.program:segment.end]
    return command


def _for_openmpi(plan: Plan, words: list[str], segments: list[Segment], settings: dict[str, str]) -> list[str]:
    """-x in front of every program: Open MPI keeps the variables of each program apart."""
    command = words[:segments[0].start]
    library = iter(plan.preloads)
    for number, segment in enumerate(segments):
        own = [o for o in segment.options if o.name == "x" and _environment_option(o, PRELOAD) is not None]
        bare = [o for o in segment.options if o.name == "x" and o.values == [PRELOAD]]
        present = _environment_option(own[-1], PRELOAD) if own else plan.environment.get(PRELOAD)
        command += [":"] if number else []
        options = _without(words, segment.start, segment.program, own + bare)
        if segment.program < segment.end or segment.has("app"):
            for name, value in settings.items():
                command += ["-x", f"{name}={value}"]
            command += ["-x", f"{PRELOAD}={_joined(present, next(library, plan.preloads[0]))}"]
        command += options + words[segment.program:segment.end]
    return command


def _for_slurm(plan: Plan, words: list[str], segments: list[Segment], at: int,
               settings: dict[str, str]) -> list[str]:
    """--export: the preload by value; tutti's settings by name, because values may hold commas."""
    options = segments[0].options
    exports = [option for option in options if option.name == "export"]
    wanted = exports[-1].values[-1] if exports and exports[-1].values else "ALL"
    parts = [] if wanted == "NONE" else [part for part in wanted.split(",") if part]
    own = [part for part in parts if part.startswith(PRELOAD + "=")]
    present = own[-1][len(PRELOAD) + 1:] if own else plan.environment.get(PRELOAD)
    parts = [part for part in parts if part not in own and part != PRELOAD]
    if "ALL" not in parts:
        parts += [name for name in settings if name not in parts]
    parts.append(f"{PRELOAD}={_joined(present, plan.preloads[0])}")
    if any(library != plan.preloads[0] for library in plan.preloads):
        raise UserError("srun cannot give different libraries to the programs of one job; build them all "
                        "with the same MPI")
    rest = _without(words, at + 1, len(words), exports)
    return [*words[:at + 1], "--export=" + ",".join(parts), *rest]
