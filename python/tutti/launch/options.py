"""The options of `tutti run`."""

from __future__ import annotations

import os

from tutti.errors import UserError
from tutti.launch.record import Record

REPORT_HERE = "-"  # --report without a file


class Options(Record):
    """What stands between `tutti run` and the launcher, and what follows."""

    words: list[str]
    report: str | None = None
    report_json: str | None = None
    alg: list[str] = []  # noqa: RUF012 (copied)
    dcp: str | None = None
    dcp_from_job: bool = False


_VALUES = {"--report-json": "report_json", "--alg": "alg", "--dcp": "dcp"}


def read(arguments: list[str]) -> Options | None:
    """The options and the launcher's command line; None where there is anything to explain (--help, a mistake): the
    option parser of the other commands is better at that."""
    options = Options([])
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name == "--" and not equals:
            break
        if name == "--report":
            options.report = value if equals else REPORT_HERE
        elif name == "--dcp-from-job" and not equals:
            options.dcp_from_job = True
        elif name in _VALUES:
            if not equals:
                if at == len(arguments):
                    return None
                value = arguments[at]
                at += 1
            if name == "--alg":
                options.alg.append(value)
            else:
                setattr(options, _VALUES[name], value)
        else:
            return None
    options.words = arguments[at:]
    return options if options.words else None


def settings_of(options: Options) -> dict[str, str]:
    """The TUTTI_* settings that the options stand for. Raises UserError."""
    settings: dict[str, str] = {}
    if options.dcp is not None or options.dcp_from_job:
        settings = _dedicated(options)
    if options.report is not None:
        settings["TUTTI_REPORT"] = "1" if options.report == REPORT_HERE else _output_path(options.report)
    if options.report_json is not None:
        settings["TUTTI_REPORT_JSON"] = _output_path(options.report_json)
    if options.alg:
        inherited = [os.environ["TUTTI_ALG"]] if os.environ.get("TUTTI_ALG") else []
        settings["TUTTI_ALG"] = ",".join(inherited + options.alg)
    return settings


def _dedicated(options: Options) -> dict[str, str]:
    """Of --dcp and --dcp-from-job. Says what auto has come to, and why. Raises UserError."""
    from tutti.launch.dcp import options_of

    wanted = options.dcp
    if wanted is not None and wanted.startswith("auto"):
        from tutti.launch.automatic import resolve
        from tutti.launch.run import say

        decision = resolve(wanted, options.words, options.dcp_from_job)
        say(f"--dcp auto: {f'--dcp {decision.ratio}' if decision.ratio else 'no dedicated processors'}: {decision.why}")
        if decision.ratio is None:
            return {}
        wanted = decision.ratio
    return options_of(wanted, options.dcp_from_job)


def _output_path(name: str) -> str:
    """An absolute path that can be written: ranks may run in another folder."""
    path = os.path.abspath(name)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise UserError(f"cannot write the report to '{name}': its folder does not exist or it is one")
    return path
