"""The tasks of a run with their times, sorted, filtered and paged by a key.

A retried task is listed once, as its newest try. The cost is bounded by the tasks of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import (
    Case,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest

from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import State, Task

from .time_limit import time_limit

PAGE_SIZE = 100
SORTS = ("id", "-started", "-duration", "-wait", "-attempts")  # a dash for the largest first
NONE = timedelta(0)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = {"id": "pk", "started": "started", "duration": "duration", "wait": "wait", "attempts": "attempt"}


class TaskPage(NamedTuple):
    rows: list[Any]
    next: str  # the key to continue from, or empty


def list_tasks(
    run: Run, at: datetime, *, sort: str, states: Sequence[str] = (), text: str = "", after: str = ""
) -> TaskPage:
    """`text` is a part of an id or of an error, or a worker. `at` is the end of what has not finished."""
    rows = _annotate(Task.objects.filter(run=run, successor=None), at)
    if states:
        rows = rows.filter(state__in=states)
    if text:
        rows = rows.filter(Q(pk__contains=text) | Q(last_error__icontains=text) | Q(worker=text) | Q(last_worker=text))
    column, descends = COLUMNS[sort.removeprefix("-")], sort.startswith("-")
    if key := _parse_key(column, after):
        value, pk = key
        beyond = Q(**{f"{column}__{'lt' if descends else 'gt'}": value})
        rows = rows.filter(beyond if column == "pk" else beyond | Q(**{column: value, "pk__gt": pk}))
    order = ["pk"] if column == "pk" else [f"-{column}" if descends else column, "pk"]
    with time_limit():
        found = list(rows.order_by(*order).defer("payload", "output", "result", "metadata")[: PAGE_SIZE + 1])
    return TaskPage(found[:PAGE_SIZE], _format_key(column, found[PAGE_SIZE - 1]) if len(found) > PAGE_SIZE else "")


def _annotate(tasks: Any, at: datetime) -> Any:
    """Adds when the last attempt started, how long it took or has been running, and how long it had been queued."""
    now = Value(at, output_field=DateTimeField())
    queued = Event.objects.filter(entity_type="task", entity_id=OuterRef("pk"), to_state=State.QUEUED)
    last_queued = Subquery(queued.order_by("-sequence").values("timestamp")[:1])
    # A task that was queued again has not started since, so its wait ends now.
    waited_until = Case(When(state=State.QUEUED, then=now), When(started_at__isnull=False, then=F("started_at")))
    ended = Case(When(state__in=(State.RUNNING, State.VALIDATING), then=now), default=F("completed_at"))
    return tasks.annotate(
        started=Coalesce(F("started_at"), Value(LONG_AGO, output_field=DateTimeField())),
        duration=_at_least_none(ended, F("started_at")),
        wait=_at_least_none(waited_until, last_queued),
    )


def _at_least_none(end: Any, start: Any) -> Any:
    none = Value(NONE, output_field=DurationField())
    return Greatest(Coalesce(ExpressionWrapper(end - start, output_field=DurationField()), none), none)


def _parse_key(column: str, after: str) -> tuple[Any, str] | None:
    """The value and the id of the last row of the page before; None for a key that makes no sense."""
    text, found, pk = after.rpartition("~")
    if not found:
        return None
    try:
        return _READ[column](text), pk
    except (ValueError, OverflowError):
        return None


def _format_key(column: str, row: Any) -> str:
    value = getattr(row, column)
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    return f"{value.isoformat() if isinstance(value, datetime) else value}~{row.pk}"


def _read_seconds(text: str) -> timedelta:
    return timedelta(microseconds=int(text))


def _read_moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_READ: dict[str, Any] = {
    "pk": str,
    "started": _read_moment,
    "duration": _read_seconds,
    "wait": _read_seconds,
    "attempt": int,
}
