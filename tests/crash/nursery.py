"""A program that loads Django once and forks a victim for each scenario.

    python -m tests.crash.nursery

reads one JSON scenario per line, forks a victim that runs it, and reports in lines: `pid N`, `statement`, `paused`,
`done`, and `gone STATUS` once the victim is dead. A paused victim waits to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def pause() -> None:
    report("paused")
    while True:
        signal.pause()


class Statements:
    """Counts the statements sent to the database, and pauses before the chosen one."""

    def __init__(self, fatal: int | None) -> None:
        self.fatal, self.seen = fatal, 0

    def __call__(self, execute: Any, *statement: Any) -> Any:
        self.seen += 1
        report("statement")
        if self.seen == self.fatal:
            pause()
        return execute(*statement)


def play(scenario: dict[str, Any]) -> None:
    """Runs the scenario and pauses at the moment it names."""
    from django.db import connection

    from statecore.kernel import registry
    from tests.crash import deeds

    connection.ensure_connection()
    if scenario["moment"] == "written":
        registry.reactions.append(("", lambda work, changes: pause()))
    if scenario["moment"] == "committed":
        registry.listeners.append(pause)
    deed: Callable[[], object] = getattr(deeds, scenario["deed"])
    with connection.execute_wrapper(Statements(scenario["statement"])):
        for _ in range(scenario["times"]):
            deed()
            report("done")


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            play(json.loads(line))
            os._exit(0)
        report("pid", pid)
        _pid, status = os.waitpid(pid, 0)
        report("gone", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
