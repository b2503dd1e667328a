"""A program that forks victims, each of which stands still at one moment of a patch or a rollback, to be killed.

    python -m tests.executors.nursery

reads one line per victim, `DEED LEDGER MOMENT`, and says `pid N`, `stands` or `done`, and `gone STATUS`. A moment is
the n-th time that git or the door is about to be asked for something.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Moments:
    def __init__(self, fatal: int) -> None:
        self.fatal, self.seen = fatal, 0

    def before(self, function: Any) -> Any:
        def watched(*given: Any, **more: Any) -> Any:
            self.seen += 1
            if self.seen == self.fatal:
                say("stands")
                while True:
                    signal.pause()
            return function(*given, **more)

        return watched


def play(deed: str, ledger: str, moment: int) -> None:
    from statecore import door
    from statecore.executors import compensation, patches
    from statecore.executors.repository import Repository
    from tests.races.contest import operator

    moments = Moments(moment)
    Repository.git = moments.before(Repository.git)  # type: ignore[method-assign]
    door.transition = moments.before(door.transition)
    if deed == "patches":
        patches.run_due(wait=0)
    else:
        compensation.execute(ledger, operator("cleo"), "killed and tried again", wait=0)
    say("done")


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        deed, ledger, moment = line.split()
        pid = os.fork()
        if pid == 0:
            play(deed, ledger, int(moment))
            os._exit(0)
        say("pid", pid)
        _pid, status = os.waitpid(pid, 0)
        say("gone", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
