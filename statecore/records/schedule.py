"""Schedules, which submit runs from a plan template by cron, and their occurrences.

The next occurrence is a column of the schedule and every due one a row, so nothing depends on a message or a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from django.db import connection, models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now, rfc3339
from ..kernel.ids import ID_LENGTH, IdField

SCHEDULE_ID_LENGTH = 32  # the id of a run has the time too
REASON_LENGTH = 2_000
PREVIEWED = 5
# Since the schedule was stored, its time zone left the data of the system, or its expression is no longer accepted.
UNREADABLE = (ZoneInfoNotFoundError, CronSimError)

INSERT = (
    "INSERT INTO statecore_scheduleoccurrence (schedule_id, at, outcome, detail, noticed_at, requested_by, run_id) "
    "VALUES (%s, %s, %s, %s, %s, '', '') ON CONFLICT (schedule_id, at) DO NOTHING"
)


class CatchUp(models.TextChoices):
    ALL = "all"
    LATEST = "latest"
    NONE = "none"


class Overlap(models.TextChoices):
    SKIP = "skip"
    ALLOW = "allow"


class Schedule(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    template = IdField(max_length=ID_LENGTH)
    # None for the newest one at the time of each occurrence.
    template_version = models.PositiveIntegerField(null=True)
    cron = models.CharField(max_length=100)
    timezone = models.CharField(max_length=64)
    parameters = models.JSONField(default=dict)
    # What happens with occurrences that were not noticed in time, such as during an outage.
    catch_up = models.CharField(max_length=8, choices=CatchUp.choices, default=CatchUp.LATEST)
    # What happens with an occurrence while the run of an earlier one is not final.
    overlap = models.CharField(max_length=8, choices=Overlap.choices, default=Overlap.SKIP)
    not_after = models.DateTimeField(null=True)
    # None if there is none, or while the schedule is paused.
    next_at = models.DateTimeField(null=True)
    paused_at = models.DateTimeField(null=True)
    paused_by = models.CharField(max_length=NAME_LENGTH, blank=True)
    pause_reason = models.CharField(max_length=REASON_LENGTH, blank=True)
    created_by = models.CharField(max_length=NAME_LENGTH)
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view", "add", "change")
        indexes = (models.Index(fields=("next_at",), condition=Q(next_at__isnull=False), name="schedule_by_next"),)

    def __str__(self) -> str:
        return f"schedule {self.pk}"

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first occurrence after a moment; None if there is none."""
        found = next(iter_occurrences(self.cron, self.timezone, moment), None)
        return None if found is None or (self.not_after is not None and found > self.not_after) else found

    def latest_until(self, moment: datetime) -> datetime | None:
        """Return the last occurrence at a moment or before."""
        end = moment if self.not_after is None else min(moment, self.not_after)
        return next(iter_occurrences(self.cron, self.timezone, end, reverse=True), None)

    def preview(self, count: int = PREVIEWED) -> list[datetime]:
        """Return the next occurrences; none while the schedule is paused, and one while its times cannot be read."""
        if self.next_at is None:
            return []
        try:
            found = list(islice(iter_occurrences(self.cron, self.timezone, self.next_at), count - 1))
        except UNREADABLE:
            return [self.next_at]
        return [self.next_at, *(each for each in found if self.not_after is None or each <= self.not_after)]

    def as_dict(self) -> dict[str, Any]:
        last = self.occurrences.order_by("-at").first()
        return {
            "id": self.pk,
            "template": self.template,
            "template_version": self.template_version,
            "cron": self.cron,
            "timezone": self.timezone,
            "parameters": self.parameters,
            "catch_up": self.catch_up,
            "overlap": self.overlap,
            "not_after": self.not_after and rfc3339(self.not_after),
            "paused": self.paused_at is not None,
            "pause_reason": self.pause_reason or None,
            "paused_by": self.paused_by or None,
            "next": [rfc3339(each) for each in self.preview()],
            "last": last and last.as_dict(),
            "created_by": self.created_by,
            "created_at": rfc3339(self.created_at),
        }


def iter_occurrences(cron: str, timezone: str, moment: datetime, *, reverse: bool = False) -> Any:
    """Yield the occurrences after a moment, in UTC; with `reverse` those at the moment and before, latest first.

    A time that the change to summer time leaves out occurs when that change ends; one that happens twice occurs once.
    """
    start = moment.astimezone(ZoneInfo(timezone))
    if reverse:
        start = datetime.fromtimestamp(int(moment.timestamp()) + 1, start.tzinfo)
    for each in CronSim(cron, start, reverse=reverse):
        yield each.astimezone(UTC)


class Outcome(models.TextChoices):
    DUE = "due"
    SUBMITTED = "submitted"
    SKIPPED = "skipped"
    MISSED = "missed"
    FAILED = "failed"


class ScheduleOccurrence(models.Model):
    schedule = models.ForeignKey(Schedule, models.PROTECT, related_name="occurrences")
    at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.DUE)
    # Empty if the schedule was due; otherwise the operator who ran it.
    requested_by = models.CharField(max_length=NAME_LENGTH, blank=True)
    run_id = models.CharField(max_length=ID_LENGTH, blank=True)
    template_version = models.PositiveIntegerField(null=True)
    detail = models.CharField(max_length=REASON_LENGTH, blank=True)
    noticed_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("schedule", "at"), name="schedule_occurs_once"),)
        indexes = (models.Index(fields=("at",), condition=Q(outcome="due"), name="occurrence_due"),)

    def __str__(self) -> str:
        return f"occurrence of {self.schedule_id} at {self.at}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": rfc3339(self.at),
            "outcome": self.outcome,
            "run": self.run_id or None,
            "template_version": self.template_version,
            "requested_by": self.requested_by or None,
            "detail": self.detail or None,
        }


def record_occurrences(found: Iterable[ScheduleOccurrence]) -> None:
    """Write the occurrences in one batch, except those that another sweep or an operator recorded before."""
    prepare = connection.ops.adapt_datetimefield_value
    with connection.cursor() as cursor:
        cursor.executemany(
            INSERT,
            [
                (each.schedule_id, prepare(each.at), each.outcome, each.detail, prepare(each.noticed_at))
                for each in found
            ],
        )
