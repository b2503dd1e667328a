"""Restore drills: rehearsals of the loss of the host, with what they would have recovered."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from ..kernel.clock import format_utc, now

EVERY = timedelta(days=7)
# A drill that has not ended after this time was killed.
LONGEST = timedelta(days=1)
# A drill that failed is repeated after this time.
REPEATED_AFTER = timedelta(days=1)
KEPT = 100
ERROR_LENGTH = 500


class RestoreDrill(models.Model):
    started_at = models.DateTimeField()
    # None while it runs, and if it was killed.
    ended_at = models.DateTimeField(null=True)
    # Why it failed; empty if it succeeded.
    error = models.CharField(max_length=ERROR_LENGTH, blank=True)
    export = models.CharField(max_length=64, blank=True)
    # The last position that was restored, and how many newer events the export lacked.
    position = models.PositiveBigIntegerField(default=0)
    lost_events = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0.0)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"restore drill of {format_utc(self.started_at)}"

    def has_failed(self, at: datetime) -> bool:
        return bool(self.error) or (self.ended_at is None and self.started_at < at - LONGEST)

    def is_successor_due(self, at: datetime) -> bool:
        return self.started_at < at - (REPEATED_AFTER if self.has_failed(at) else EVERY)

    def end(self, error: str = "") -> None:
        """Stores the result, and deletes the drills of long ago."""
        self.ended_at, self.error = now(), error[:ERROR_LENGTH]
        self.save()
        recent = RestoreDrill.objects.order_by("-pk").values_list("pk", flat=True)[:KEPT]
        RestoreDrill.objects.exclude(pk__in=list(recent)).delete()


def find_last() -> RestoreDrill | None:
    return RestoreDrill.objects.order_by("-pk").first()


def find_last_end(*, has_failed: bool) -> datetime | None:
    """Returns when a drill last succeeded or failed."""
    ended = RestoreDrill.objects.exclude(ended_at=None)
    chosen = ended.exclude(error="") if has_failed else ended.filter(error="")
    return chosen.order_by("-ended_at").values_list("ended_at", flat=True).first()
