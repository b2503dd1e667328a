"""Bulk jobs: one action for many entities, run in portions, with a result for each entity."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339
from ..kernel.ids import ID_LENGTH


class BulkJob(models.Model):
    id = models.CharField(primary_key=True, max_length=ID_LENGTH)
    entity_type = models.CharField(max_length=32)
    action = models.CharField(max_length=16, default="transition", db_default="transition")
    trigger = models.CharField(max_length=64)
    to_state = models.CharField(max_length=32, default="", db_default="", blank=True)
    category = models.CharField(max_length=32, default="", db_default="", blank=True)
    expires_at = models.DateTimeField(null=True)  # the end of a waiver
    params = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    # The requester; permissions are checked while the job runs, not when it was requested.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey("statecore.Token", models.PROTECT, null=True, related_name="+")
    actor = models.CharField(max_length=NAME_LENGTH)
    actor_kind = models.CharField(max_length=16)
    channel = models.CharField(max_length=16)
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    # Overrides that wait for a second person.
    approvals = models.PositiveIntegerField(default=0, db_default=0)
    # How many other entities it led to which state.
    caused = models.JSONField(null=True)
    stopped_by = models.CharField(max_length=NAME_LENGTH, default="", db_default="", blank=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("created_at",), condition=Q(finished_at=None), name="bulk_job_unfinished"),
            models.Index(fields=("finished_at",), condition=Q(finished_at__isnull=False), name="bulk_job_by_end"),
        )

    def __str__(self) -> str:
        return f"bulk job {self.pk}: {self.trigger or self.action} for {self.total} {self.entity_type}"

    @property
    def changed(self) -> int:
        return self.done - self.refused - self.approvals

    def as_dict(self) -> dict[str, Any]:
        names = (
            "id", "entity_type", "action", "trigger", "to_state", "reason", "actor", "total", "done", "refused",
            "approvals",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "caused": self.caused or [],
            "finished": self.finished_at is not None,
            "stopped_by": self.stopped_by or None,
            "created_at": rfc3339(self.created_at),
            "finished_at": self.finished_at and rfc3339(self.finished_at),
        }


class BulkPortion(models.Model):
    """A portion of a job's entities, in the given order; `results` is set when the portion has run."""

    job = models.ForeignKey(BulkJob, models.CASCADE, related_name="portions")
    number = models.PositiveIntegerField()
    ids = models.JSONField()
    results = models.JSONField(null=True)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("job", "number"), name="bulk_portion_numbers_are_unique"),)

    def __str__(self) -> str:
        return f"{self.job_id} {self.number}"
