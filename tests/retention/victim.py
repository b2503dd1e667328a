"""Retires in a process of its own, and is killed by itself at the moment it was told: kill -9, without a word."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

# What it is about to do, or what it has just done, when it dies.
BEFORE = {
    "before the record": "INSERT INTO STATECORE_RETIREMENT",
    "before the anchors": "INSERT INTO STATECORE_ANCHOR",
    "before the note": "INSERT INTO STATECORE_AUDITNOTE",
    "before the events go": "DELETE FROM STATECORE_EVENT",
    "before the positions go": "DELETE FROM STATECORE_POSITION",
}
AFTER = {"before the commit": "DELETE FROM STATECORE_POSITION"}
RENAMES = {"before the file has its name": 1, "in the second stride": 2}
MOMENTS = (*RENAMES, *BEFORE, *AFTER)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_rename(number: int) -> None:
    seen = 0

    def heard(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "os.rename" and ".jsonl" in str(given[1]):
            seen += 1
            if seen == number:
                die()

    sys.addaudithook(heard)


def at_statement(moment: str) -> Callable[..., Any]:
    def execute(run: Callable[..., Any], sql: str, *given: Any) -> Any:
        said = sql.replace('"', "").upper()
        if moment in BEFORE and said.startswith(BEFORE[moment]):
            die()
        answer = run(sql, *given)
        if moment in AFTER and said.startswith(AFTER[moment]):
            die()
        return answer

    return execute


def main(moment: str) -> None:
    import django

    django.setup()
    from django.db import connection

    from tests.retention.past import retired

    if moment in RENAMES:
        at_rename(RENAMES[moment])
    with connection.execute_wrapper(at_statement(moment)):
        retired(most=5)


if __name__ == "__main__":
    main(sys.argv[1])
