"""Forks child processes that each pause at one moment of a patch or a rollback, to be killed there.

    python -m tests.executors.pausing_child

reads one line per child, `ACTION LEDGER MOMENT`, and prints `pid N`, `paused` or `done`, and `gone STATUS`. A moment
is the n-th call of git or of the transition service.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Moments:
    def __init__(self, pause_at: int) -> None:
        self.pause_at, self.seen = pause_at, 0

    def pausing(self, function: Any) -> Any:
        def counted(*given: Any, **more: Any) -> Any:
            self.seen += 1
            if self.seen == self.pause_at:
                report("paused")
                while True:
                    signal.pause()
            return function(*given, **more)

        return counted


def run_child(action: str, ledger: str, moment: int) -> None:
    from statecore import transitions
    from statecore.executors import compensation, git, patches
    from tests.races.contest import operator

    moments = Moments(moment)
    git.run = moments.pausing(git.run)
    transitions.transition = moments.pausing(transitions.transition)
    if action == "patches":
        patches.run_due(wait=0)
    else:
        compensation.execute(ledger, operator("cleo"), "killed and tried again", wait=0)
    report("done")


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        action, ledger, moment = line.split()
        pid = os.fork()
        if pid == 0:
            run_child(action, ledger, int(moment))
            os._exit(0)
        report("pid", pid)
        _pid, status = os.waitpid(pid, 0)
        report("gone", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
