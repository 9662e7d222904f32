"""What `tutti where` starts on another machine of a job: it answers on its standard output what it is asked on its standard
input, a line of JSON each, and ends with that input.

    python -m tutti.where.agent SECONDS [JOB]

It ends, too, when nothing has been asked for so many seconds. Like `tutti where` itself it sees this user's jobs only."""

from __future__ import annotations

import contextlib
import json
import select
import sys
from typing import Any

from tutti.where.ranks import Here, to_json
from tutti.where.sites import Sites


def answer(here: Here, asked: dict[str, Any], job: str | None) -> dict[str, Any]:
    if "site" in asked:
        pid, process, address = asked["site"]
        return {"text": here.sites.text(pid, process, address)}
    return to_json(here.look(), job)


def main() -> None:
    patience, job = float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    here = Here(Sites())
    with contextlib.suppress(BrokenPipeError):
        while select.select([sys.stdin], [], [], patience)[0] and (line := sys.stdin.readline()):
            print(json.dumps(answer(here, json.loads(line), job)), flush=True)


if __name__ == "__main__":
    main()
