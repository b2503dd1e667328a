"""Holds: orders of operators to give out no new work, of everything or of a phase, run, capability or tool.

Running work continues and reports. A hold ends when it expires or is released; both its creation and its end are
entries of the journal.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q, QuerySet

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import format_utc, now, rfc3339
from ..kernel.ids import ID_LENGTH, IdField
from ..storage.json_words import has_word

REASON_LENGTH = 2_000
TARGET_LENGTH = 200


class Kind(models.TextChoices):
    EVERYTHING = "everything"
    PHASE = "phase"
    RUN = "run"
    CAPABILITY = "capability"
    TOOL = "tool"


class Status(models.TextChoices):
    ACTIVE = "active"
    RELEASED = "released"
    EXPIRED = "expired"


class Hold(models.Model):
    id = IdField(primary_key=True, max_length=ID_LENGTH)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    # The id or name that the hold is about; empty for everything.
    target = models.CharField(max_length=TARGET_LENGTH, blank=True)
    reason = models.CharField(max_length=REASON_LENGTH)
    created_by = models.CharField(max_length=NAME_LENGTH)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # Empty if the hold expired.
    released_by = models.CharField(max_length=NAME_LENGTH, blank=True)
    release_reason = models.CharField(max_length=REASON_LENGTH, blank=True)

    class Meta:
        default_permissions = ("view", "add", "change")
        # Read by every claim.
        indexes = (models.Index(fields=("kind",), condition=Q(ended_at=None), name="hold_not_ended"),)

    def __str__(self) -> str:
        return f"hold {self.pk} of {self.scope}"

    @property
    def scope(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    @property
    def status(self) -> Status:
        if self.released_by:
            return Status.RELEASED
        has_expired = self.ended_at is not None or (self.expires_at is not None and self.expires_at <= now())
        return Status.EXPIRED if has_expired else Status.ACTIVE

    def covers(self, *, run_id: str, phase_id: str, capabilities: Collection[str], tool: str) -> bool:
        """Whether a task of this run and phase that requires these capabilities and this tool is held."""
        own = {Kind.RUN: (run_id,), Kind.PHASE: (phase_id,), Kind.CAPABILITY: capabilities, Kind.TOOL: (tool,)}
        return self.kind == Kind.EVERYTHING or self.target in own[Kind(self.kind)]

    def describe(self) -> str:
        """`held: run r1, by ada, until 2026-11-18T16:00:00Z`."""
        until = format_utc(self.expires_at) if self.expires_at else "it is released"
        return f"held: {self.scope.replace(':', ' ', 1)}, by {self.created_by}, until {until}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.pk,
            "scope": self.scope,
            "status": str(self.status),
            "reason": self.reason,
            "created_by": self.created_by,
            "created_at": rfc3339(self.created_at),
            "expires_at": self.expires_at and rfc3339(self.expires_at),
            "ended_at": self.ended_at and rfc3339(self.ended_at),
            "released_by": self.released_by or None,
            "release_reason": self.release_reason or None,
        }


def select_active(at: datetime) -> QuerySet[Hold]:
    return Hold.objects.filter(Q(expires_at=None) | Q(expires_at__gt=at), ended_at=None).order_by("created_at", "pk")


def with_status(status: Status | None, at: datetime) -> QuerySet[Hold]:
    """Return the holds with this status, or all."""
    if status is Status.ACTIVE:
        return select_active(at)
    if status is Status.RELEASED:
        return Hold.objects.exclude(released_by="")
    if status is Status.EXPIRED:
        return Hold.objects.filter(Q(ended_at__isnull=False) | Q(expires_at__lte=at), released_by="")
    return Hold.objects.all()


def exclude_held(tasks: QuerySet[Any], at: datetime) -> QuerySet[Any]:
    """Return the tasks that no hold keeps from being claimed; few holds are active at a time."""
    targets: dict[str, list[str]] = {}
    for kind, target in select_active(at).values_list("kind", "target"):
        targets.setdefault(kind, []).append(target)
    if Kind.EVERYTHING in targets:
        return tasks.filter(pk="")  # not none(), which has no SQL to count with
    for kind, column in ((Kind.RUN, "run__in"), (Kind.PHASE, "phase__in"), (Kind.TOOL, "tool__in")):
        tasks = tasks.exclude(**{column: targets[kind]}) if kind in targets else tasks
    for name in targets.get(Kind.CAPABILITY, ()):
        tasks = tasks.exclude(has_word("required_capabilities", name))
    return tasks
