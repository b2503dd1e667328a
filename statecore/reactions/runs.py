"""Reactions of runs: the outcome of a run is derived from its workstreams."""

from __future__ import annotations

from typing import NamedTuple

from ..machines.run import Run, State
from ..machines.workstream import Workstream
from ..storage.sql_params import quote_states
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import Causes, apply_each, has_current_part, has_part, run_query


class Situation(NamedTuple):
    id: str
    state: str
    has_workstreams: bool
    workstream_open: bool
    critical_failure: bool

    def due_trigger(self) -> str | None:
        if self.state != State.RUNNING:
            return None
        if self.critical_failure:
            return "critical_workstream_failed"
        return "all_workstreams_completed" if self.has_workstreams and not self.workstream_open else None


SITUATION = f"""
SELECT run.id, run.state,
  {has_part("run", "workstreams")},
  {has_current_part("run", "workstreams", f"part.state NOT IN ({quote_states(Workstream.flow.done)})")},
  {has_current_part("run", "workstreams", "part.state = 'failed' AND part.is_critical")}
FROM {{runs}} AS run WHERE run.id {{ids}}
"""


def reevaluate(work: UnitOfWork, causes: Causes) -> None:
    """End each of these runs if its workstreams have decided the outcome."""
    found = [Situation(*row) for row in run_query(work, SITUATION, causes)] if causes else []
    apply_each(work, Run, ((each.id, each.due_trigger()) for each in found), causes, reevaluate)
