"""Who waits for an operator: a part has failed or was cancelled, and the whole was not; or what was waited for will
never come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet, Subquery

from ..kernel.indexes import Literal, is_live
from ..machines import run, task, workstream
from ..machines.run import Run
from ..machines.task import Task
from ..machines.workstream import Workstream


class Undecided(NamedTuple):
    entity: Any
    since: datetime


def undecided(limit: int) -> Iterator[Undecided]:
    """Of each kind the longest, at most so many; who waits for more than one reason comes more than once."""
    for entities in waiting():
        # Filtered by what the subquery found: it reads an index of lost rows by their parent.
        for entity in entities.filter(undecided_since__isnull=False).order_by("undecided_since")[:limit]:
            yield Undecided(entity, entity.undecided_since)


def waiting() -> list[QuerySet[Any]]:
    """One question for each state a part can be lost in: each has an index of its own."""
    return [*map(_runs, workstream.LOST), *map(_workstreams, task.LOST), _dependents()]


def _runs(state: str) -> QuerySet[Any]:
    lost = Workstream.objects.filter(run=OuterRef("pk"), state=Literal(state), successor=None)
    return _with_the_first_of(Run.objects.filter(is_live(Run.flow.final), state=run.State.RUNNING), lost)


def _workstreams(state: str) -> QuerySet[Any]:
    lost = Task.objects.filter(workstream=OuterRef("pk"), state=Literal(state), successor=None)
    return _with_the_first_of(Workstream.objects.filter(is_live(Workstream.flow.final)), lost)


def _dependents() -> QuerySet[Any]:
    """A dependency that ended without being completed stays that way, until it is retried."""
    links: Any = Workstream.depends_on.through.objects
    ended = sorted(workstream.FINAL - {workstream.State.COMPLETED})
    waiting = Workstream.objects.filter(is_live(Workstream.flow.final), state__in=sorted(workstream.WAITING))
    dead = links.filter(from_workstream=OuterRef("pk"), to_workstream__state__in=ended)
    return _with_the_first_of(waiting, dead, "to_workstream__completed_at")


def _with_the_first_of(parents: Any, ended: Any, moment: str = "completed_at") -> QuerySet[Any]:
    found: QuerySet[Any] = parents.annotate(undecided_since=Subquery(ended.order_by(moment).values(moment)[:1]))
    return found
