"""The entry point. `tutti run` stands in front of every job, so its command line is read here, without what the other
commands need: the option parser alone takes several times as long to import as all that a run needs."""

from __future__ import annotations

import os
import sys

from tutti.errors import Failure, UserError

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> None:
    """Errors become one line and an exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = _dispatch(arguments)
    except UserError as error:
        _fail(str(error), EXIT_USAGE)
    except Failure as error:
        _fail(str(error), EXIT_FAILURE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def _dispatch(arguments: list[str]) -> int | None:
    if arguments[:1] == ["run"]:
        from tutti.launch import options

        plain = options.read(arguments[1:])
        if plain is not None:
            from tutti.launch.run import run

            return run(plain.words, options.settings_of(plain))
    from tutti import commands

    return commands.call(arguments)


def _fail(message: str, status: int) -> None:
    print(f"tutti: {message}", file=sys.stderr)
    sys.exit(status)
