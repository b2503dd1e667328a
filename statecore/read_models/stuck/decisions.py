"""Entities that wait for an operator's decision.

A part failed or was cancelled, a dependency will never complete, or a task was blocked for longer than its plan allows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery

from ...kernel.clock import now
from ...kernel.constraints import SqlLiteral, is_live
from ...machines import run, task, workstream
from ...machines.run import OnFailure, Run
from ...machines.task import Task
from ...machines.test_gate import TestGate
from ...machines.workstream import Workstream

SINCE = "undecided_since"


class Reason(NamedTuple):
    """Why parents wait for a decision: they are in one of `states` and have `lost` parts, since `moment` of a part."""

    name: str
    parents: QuerySet[Any]
    states: Collection[str]
    lost: QuerySet[Any]
    moment: str = "completed_at"


def find_undecided() -> dict[str, QuerySet[Any]]:
    """Returns the rows that wait for a decision, by reason; a row with several reasons has the first one only."""
    found: dict[str, QuerySet[Any]] = {}
    earlier: list[Reason] = []
    for reason in _list_reasons():
        first = Subquery(reason.lost.order_by(reason.moment).values(reason.moment)[:1])
        # Filtered by the result of the subquery, which reads an index of lost rows by parent.
        rows = reason.parents.annotate(**{SINCE: first}).filter(**{f"{SINCE}__isnull": False})
        found[reason.name] = _exclude(rows, earlier)
        earlier.append(reason)
    return found


def exclude_undecided(rows: QuerySet[Any], state: str) -> QuerySet[Any]:
    """Returns the rows, all of which are in `state`, without those that wait for a decision."""
    return _exclude(rows, [reason for reason in _list_reasons() if state in reason.states])


def _exclude(rows: QuerySet[Any], reasons: list[Reason]) -> QuerySet[Any]:
    for reason in reasons:
        if reason.parents.model is rows.model:
            rows = rows.exclude(Exists(reason.lost))
    return rows


def _list_reasons() -> list[Reason]:
    """Returns a reason for each state in which a part is lost, because each of these states has a partial index."""
    return [
        *map(_build_run_reason, workstream.LOST),
        *map(_build_workstream_reason, task.LOST),
        _build_dependency_reason(),
        _build_repair_reason(),
        _build_timeout_reason(),
    ]


def _build_run_reason(state: str) -> Reason:
    lost = Workstream.objects.filter(run=OuterRef("pk"), state=SqlLiteral(state), successor=None)
    running = Run.objects.filter(is_live(Run.flow.final), state=run.State.RUNNING)
    return Reason(f"run with {state} workstream", running, {run.State.RUNNING}, lost)


def _build_workstream_reason(state: str) -> Reason:
    lost = Task.objects.filter(workstream=OuterRef("pk"), state=SqlLiteral(state), successor=None)
    live = Workstream.objects.filter(is_live(Workstream.flow.final))
    return Reason(f"workstream with {state} task", live, workstream.LIVE, lost)


def _build_dependency_reason() -> Reason:
    """Returns the reason of workstreams with a dependency that ended without completing and was not retried."""
    links: Any = Workstream.depends_on.through.objects
    ended = sorted(workstream.FINAL - {workstream.State.COMPLETED})
    waiting = Workstream.objects.filter(is_live(Workstream.flow.final), state__in=sorted(workstream.WAITING))
    dead = links.filter(from_workstream=OuterRef("pk"), to_workstream__state__in=ended)
    return Reason("workstream without dependency", waiting, workstream.WAITING, dead, "to_workstream__completed_at")


def _build_repair_reason() -> Reason:
    """Returns the reason of workstreams with a failed gate that accept a task to repair it."""
    validating = Workstream.objects.filter(is_live(Workstream.flow.final), state=workstream.State.VALIDATING)
    failed = TestGate.objects.filter(workstream=OuterRef("pk"), state="FAILED", waived=False, successor=None)
    repairable = validating.filter(repairs__lt=F("max_repairs"))
    return Reason("workstream to repair", repairable, {workstream.State.VALIDATING}, failed)


def _build_timeout_reason() -> Reason:
    """Returns the reason of tasks that are blocked for longer than their dependency timeout."""
    blocked = Task.objects.filter(is_live(task.FINAL), state=task.State.BLOCKED, dependency_due_at__lte=now())
    waiting = blocked.filter(run__on_failure=OnFailure.WAIT, workstream__state__in=sorted(workstream.STARTED))
    itself = waiting.filter(pk=OuterRef("pk"))
    return Reason("task past its dependency timeout", waiting, {task.State.BLOCKED}, itself, "dependency_due_at")
