"""Archives events in a separate process and sends itself SIGKILL at the moment given on the command line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

# The statement that the process is about to run, or has just run, when it is killed.
BEFORE = {
    "before the record": "INSERT INTO STATECORE_RETIREMENT",
    "before the anchors": "INSERT INTO STATECORE_ANCHOR",
    "before the note": "INSERT INTO STATECORE_AUDITNOTE",
    "before the events are deleted": "DELETE FROM STATECORE_EVENT",
    "before the positions are deleted": "DELETE FROM STATECORE_POSITION",
}
AFTER = {"before the commit": "DELETE FROM STATECORE_POSITION"}
RENAMES = {"before the file is renamed": 1, "in the second batch": 2}
MOMENTS = (*RENAMES, *BEFORE, *AFTER)


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_rename(number: int) -> None:
    seen = 0

    def audit(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "os.rename" and ".jsonl" in str(given[1]):
            seen += 1
            if seen == number:
                kill_this_process()

    sys.addaudithook(audit)


def kill_at_statement(moment: str) -> Callable[..., Any]:
    def execute(run: Callable[..., Any], sql: str, *given: Any) -> Any:
        statement = sql.replace('"', "").upper()
        if moment in BEFORE and statement.startswith(BEFORE[moment]):
            kill_this_process()
        answer = run(sql, *given)
        if moment in AFTER and statement.startswith(AFTER[moment]):
            kill_this_process()
        return answer

    return execute


def main(moment: str) -> None:
    import django

    django.setup()
    from django.db import connection

    from tests.retention.past import archive_old_events

    if moment in RENAMES:
        kill_at_rename(RENAMES[moment])
    with connection.execute_wrapper(kill_at_statement(moment)):
        archive_old_events(limit=5)


if __name__ == "__main__":
    main(sys.argv[1])
