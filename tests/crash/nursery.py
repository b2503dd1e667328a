"""A program that forks victims: Django is loaded once, each victim lives for one scenario.

    python -m tests.crash.nursery

reads one JSON scenario per line, forks a victim that plays it, and says in lines what goes on: `pid N`, `statement`,
`stands`, `done`, and `gone STATUS` once the victim is dead. A victim that stands waits for ever, to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def stand() -> None:
    say("stands")
    while True:
        signal.pause()


class Statements:
    """Counts the statements on their way to the database, and stands before the chosen one."""

    def __init__(self, fatal: int | None) -> None:
        self.fatal, self.seen = fatal, 0

    def __call__(self, execute: Any, *statement: Any) -> Any:
        self.seen += 1
        say("statement")
        if self.seen == self.fatal:
            stand()
        return execute(*statement)


def play(scenario: dict[str, Any]) -> None:
    """One life: get ready, do it, and stand where the scenario says so."""
    from django.db import connection

    from statecore.kernel import registry
    from tests.crash import deeds

    connection.ensure_connection()
    if scenario["moment"] == "written":
        registry.reactions.append(lambda changes: stand())
    if scenario["moment"] == "committed":
        registry.listeners.append(stand)
    deed: Callable[[], object] = getattr(deeds, scenario["deed"])
    with connection.execute_wrapper(Statements(scenario["statement"])):
        for _ in range(scenario["times"]):
            deed()
            say("done")


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            play(json.loads(line))
            os._exit(0)
        say("pid", pid)
        _pid, status = os.waitpid(pid, 0)
        say("gone", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
