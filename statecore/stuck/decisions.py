"""Who waits for an operator: a part has failed or was cancelled, and the whole was not; or what was waited for will
never come."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from ..kernel.indexes import Literal, is_live
from ..machines import run, task, workstream
from ..machines.run import Run
from ..machines.task import Task
from ..machines.workstream import Workstream

SINCE = "undecided_since"


class Undecided(NamedTuple):
    entity: Any
    since: datetime


class Reason(NamedTuple):
    """Who may wait, in which states of theirs, for which of their parts, and when that was lost."""

    name: str
    parents: QuerySet[Any]
    states: Collection[str]
    lost: QuerySet[Any]
    moment: str = "completed_at"


def undecided(limit: int) -> Iterator[Undecided]:
    """Of each kind the longest, at most so many."""
    for entities in waiting().values():
        for entity in entities.order_by(SINCE)[:limit]:
            yield Undecided(entity, getattr(entity, SINCE))


def waiting() -> dict[str, QuerySet[Any]]:
    """By reason; who waits for more than one is found by the first."""
    found: dict[str, QuerySet[Any]] = {}
    earlier: list[Reason] = []
    for reason in _reasons():
        first = Subquery(reason.lost.order_by(reason.moment).values(reason.moment)[:1])
        # Filtered by what the subquery found: it reads an index of lost rows by their parent.
        rows = reason.parents.annotate(**{SINCE: first}).filter(**{f"{SINCE}__isnull": False})
        found[reason.name] = _without(rows, earlier)
        earlier.append(reason)
    return found


def without_the_undecided(rows: QuerySet[Any], state: str) -> QuerySet[Any]:
    """Of rows that are all in this state."""
    return _without(rows, [reason for reason in _reasons() if state in reason.states])


def _without(rows: QuerySet[Any], reasons: list[Reason]) -> QuerySet[Any]:
    for reason in reasons:
        if reason.parents.model is rows.model:
            rows = rows.exclude(Exists(reason.lost))
    return rows


def _reasons() -> list[Reason]:
    """One question for each state a part can be lost in: each has an index of its own."""
    return [*map(_runs, workstream.LOST), *map(_workstreams, task.LOST), _dependents()]


def _runs(state: str) -> Reason:
    lost = Workstream.objects.filter(run=OuterRef("pk"), state=Literal(state), successor=None)
    running = Run.objects.filter(is_live(Run.flow.final), state=run.State.RUNNING)
    return Reason(f"run with {state} workstream", running, {run.State.RUNNING}, lost)


def _workstreams(state: str) -> Reason:
    lost = Task.objects.filter(workstream=OuterRef("pk"), state=Literal(state), successor=None)
    live = Workstream.objects.filter(is_live(Workstream.flow.final))
    return Reason(f"workstream with {state} task", live, workstream.LIVE, lost)


def _dependents() -> Reason:
    """A dependency that ended without being completed stays that way, until it is retried."""
    links: Any = Workstream.depends_on.through.objects
    ended = sorted(workstream.FINAL - {workstream.State.COMPLETED})
    waiting = Workstream.objects.filter(is_live(Workstream.flow.final), state__in=sorted(workstream.WAITING))
    dead = links.filter(from_workstream=OuterRef("pk"), to_workstream__state__in=ended)
    return Reason("workstream without dependency", waiting, workstream.WAITING, dead, "to_workstream__completed_at")
