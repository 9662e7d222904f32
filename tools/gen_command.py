"""Man pages and shell completion for an installed tree, from the command's own help.

    python tools/gen_command.py VERSION FOLDER

writes FOLDER/man/tutti.1, tutti-run.1, tutti-bench-coll.1 and so on, and FOLDER/completion/{bash,zsh,fish}. The build calls
it with PYTHONPATH at python/; nothing has to be built for it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Option:
    """One option or argument of a command."""

    names: list[str]       # --np; none for an argument
    metavar: str           # empty for a switch
    help: str
    is_argument: bool


@dataclass
class Command:
    """A command, and those below it."""

    words: list[str]       # tutti bench coll
    summary: str
    about: str
    options: list[Option] = field(default_factory=list)
    below: list[Command] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "-".join(self.words)

    def all(self) -> list[Command]:
        return [self, *(command for below in self.below for command in below.all())]


def read_commands() -> Command:
    """The command line as the option parser knows it."""
    import typer
    from tutti import commands

    return _read(typer.main.get_command(commands.app), ["tutti"])


def _read(parsed, words: list[str]) -> Command:
    about = _plain(parsed.help or "")
    options = [_option(parameter) for parameter in parsed.params if not getattr(parameter, "hidden", False)]
    options.append(Option(["--help"], "", "Show a summary and exit.", False))
    below = [_read(command, [*words, name]) for name, command in getattr(parsed, "commands", {}).items()]
    return Command(words, about.split("\n")[0].rstrip("."), about, [o for o in options if o.names != ["--help"]] + options[-1:],
                   below)


def _option(parameter) -> Option:
    is_argument = parameter.param_type_name == "argument"
    is_switch = not is_argument and getattr(parameter, "is_flag", False)
    metavar = "" if is_switch else parameter.metavar or parameter.name.upper()
    names = [] if is_argument else sorted([*parameter.opts, *parameter.secondary_opts], key=len)
    return Option(names, metavar, _plain(getattr(parameter, "help", None) or ""), is_argument)


def _plain(text: str) -> str:
    """Help without the markup that the terminal gets; one line for each paragraph."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    return "\n\n".join(" ".join(re.sub(r"\[/?(bold|dim|italic|/)\]", "", part).split()) for part in paragraphs)


# ---- man pages -----------------------------------------------------------------------------------


def man_page(command: Command, version: str) -> str:
    lines = [f'.TH "{command.name.upper()}" "1" "" "tutti {version}" "tutti"', ".SH NAME",
             _escaped(f"{command.name} - {command.summary[:1].lower()}{command.summary[1:]}"), ".SH SYNOPSIS", _synopsis(command)]
    if command.about:
        lines += [".SH DESCRIPTION", *_paragraphs(command.about)]
    if command.below:
        lines += [".SH COMMANDS"]
        for below in command.below:
            lines += [".TP", f"\\fB{_escaped(' '.join(below.words))}\\fR", _escaped(below.summary) + "."]
    lines += [".SH OPTIONS"]
    for option in command.options:
        value = f" \\fI{_escaped(option.metavar)}\\fR" if option.metavar else ""
        names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in option.names)
        lines += [".TP", (names + value).strip(), *_paragraphs(option.help or "See the description.")]
    others = [other for other in (command.words[:-1], *(below.words for below in command.below)) if other]
    if others:
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped('-'.join(other))}\\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


def _synopsis(command: Command) -> str:
    arguments = [option.metavar for option in command.options if option.is_argument]
    rest = arguments or (["COMMAND ..."] if command.below else [])
    return " ".join([f"\\fB{_escaped(' '.join(command.words))}\\fR", "[\\fIoptions\\fR]",
                     *(f"\\fI{_escaped(word)}\\fR" for word in rest)])


def _paragraphs(text: str) -> list[str]:
    return "\n.PP\n".join(_escaped(paragraph) for paragraph in text.split("\n\n")).split("\n")


def _escaped(text: str) -> str:
    """For troff: backslashes, hyphens that are to stay such, and no line that begins like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


# ---- completion ----------------------------------------------------------------------------------

# Commands behind whose options another command line stands: completed as that one would be.
IN_FRONT = ("tutti run", "tutti lab")
BASH = """# Completion for tutti in bash; made from its help.
_tutti() {{
  local words="" at=1 command=tutti word
  while [ "$at" -lt "$COMP_CWORD" ]; do
    word=${{COMP_WORDS[at]}}
    case "$command $word" in
{steps}
    {values}) at=$((at + 1)) ;;
    {in_front}) case "$word" in -*) ;; *) _command_offset "$at" 2>/dev/null; return ;; esac ;;
    esac
    at=$((at + 1))
  done
  word=${{COMP_WORDS[COMP_CWORD]}}
  case "$command" in
{lists}
  esac
  case "$command $word" in
  *" -"*) ;;
  {in_front}) COMPREPLY=($(compgen -c -- "$word")); return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _tutti tutti
"""


def bash(top: Command) -> str:
    commands = {" ".join(command.words): command for command in top.all()}
    steps = "\n".join(f'    "{name}") command="{name}" ;;' for name, command in commands.items() if command is not top)
    values = [f'"{name} {option}"' for name in IN_FRONT for option in _with_value(commands[name])]
    lists = "\n".join(f'  "{name}") words="{" ".join(_words(command))}" ;;' for name, command in commands.items())
    return BASH.format(steps=steps, lists=lists, values=" | ".join(values), in_front=" | ".join(f'"{n} "*' for n in IN_FRONT))


def _with_value(command: Command) -> list[str]:
    """Options whose value is the next word; that of --report follows a = or there is none."""
    return [name for option in command.options if option.metavar and not option.metavar.startswith("[=") for name in option.names]


def _words(command: Command) -> list[str]:
    return [below.words[-1] for below in command.below] + [name for option in command.options for name in option.names]


def zsh(top: Command) -> str:
    """zsh reads bash's."""
    return "#compdef tutti\nautoload -Uz bashcompinit && bashcompinit\n" + bash(top)


def fish(top: Command) -> str:
    lines = ["# Completion for tutti in fish; made from its help."]
    for command in top.all():
        inside = " ; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words[1:]) or "__fish_use_subcommand"
        for below in command.below:
            own = " ".join(other.words[-1] for other in command.below)
            apart = inside if len(command.words) == 1 else f"{inside} ; and not __fish_seen_subcommand_from {own}"
            lines.append(f"complete -c tutti -f -n '{apart}' -a {below.words[-1]} -d '{_quoted(below.summary)}'")
        for option in command.options:
            for name in (name for name in option.names if name.startswith("--")):
                value = " -r" if option.metavar else ""
                lines.append(f"complete -c tutti -n '{inside}' -l {name[2:]}{value} -d '{_quoted(option.help)}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    first = text.split(". ")[0].rstrip(".")
    return first.replace("\\", "\\\\").replace("'", "\\'")


def main() -> None:
    version, folder = sys.argv[1], Path(sys.argv[2])
    top = read_commands()
    (folder / "man").mkdir(parents=True, exist_ok=True)
    (folder / "completion").mkdir(exist_ok=True)
    for command in top.all():
        (folder / "man" / f"{command.name}.1").write_text(man_page(command, version))
    for shell, text in (("bash", bash(top)), ("zsh", zsh(top)), ("fish", fish(top))):
        (folder / "completion" / shell).write_text(text)


if __name__ == "__main__":
    main()
