"""What a run waits for."""

from __future__ import annotations

from datetime import datetime

from ...machines.run import Run, State
from .. import words
from .wait import Cause, first_wait


def cause(run: Run, at: datetime) -> Cause:
    if run.state == State.PENDING:
        return words.standing(run, at, "nobody has started it")
    open_one = first_wait("waits for", run, "workstreams", done=("completed", "skipped"))
    return open_one or words.standing(run, at, "none of its workstreams is open")
