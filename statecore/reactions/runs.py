"""What follows for runs: their outcome is derived from their workstreams."""

from __future__ import annotations

from typing import NamedTuple

from ..kernel.many import quoted
from ..machines.run import Run, State
from ..machines.workstream import Workstream
from .causes import Causes
from .consequences import move_each
from .look import look, one_stands, there_is


class Situation(NamedTuple):
    id: str
    state: str
    has_workstreams: bool
    workstream_open: bool
    critical_failure: bool

    def next_move(self) -> str | None:
        if self.state != State.RUNNING:
            return None
        if self.critical_failure:
            return "critical_workstream_failed"
        return "all_workstreams_completed" if self.has_workstreams and not self.workstream_open else None


SITUATION = f"""
SELECT run.id, run.state,
  {there_is("run", "workstreams")},
  {one_stands("run", "workstreams", f"part.state NOT IN ({quoted(Workstream.flow.done)})")},
  {one_stands("run", "workstreams", "part.state = 'failed' AND part.is_critical")}
FROM {{runs}} AS run WHERE run.id {{ids}}
"""


def reconsider(causes: Causes) -> None:
    found = [Situation(*row) for row in look(SITUATION, causes)] if causes else []
    move_each(Run, ((each.id, each.next_move()) for each in found), causes, reconsider)
