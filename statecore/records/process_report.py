"""The processes of an installation, each of which reports every few seconds that it runs."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from ..kernel.clock import now

# A process that has not reported for this long is hung, was killed, or has lost its host or the database.
SILENT_AFTER = timedelta(seconds=18)
# A silent process that was not started again is deleted.
FORGOTTEN_AFTER = timedelta(hours=1)


class ProcessReport(models.Model):
    role = models.CharField(max_length=16)
    # The role, and the number or port of one of several.
    name = models.CharField(max_length=100)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=32)
    started_at = models.DateTimeField()
    reported_at = models.DateTimeField()
    memory_bytes = models.PositiveBigIntegerField(default=0)
    # How far the clock of its host is ahead of the database's.
    clock_skew_seconds = models.FloatField(default=0.0)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("host", "pid", "role"), name="process_reports_once"),)

    def __str__(self) -> str:
        return f"{self.name} on {self.host} (process {self.pid})"

    def is_silent(self, at: datetime) -> bool:
        return self.reported_at < at - SILENT_AFTER


def list_processes() -> list[ProcessReport]:
    return list(ProcessReport.objects.order_by("role", "name", "host", "pid"))


def forget() -> int:
    """Delete the reports of processes that ended long ago without signing off, and return their number."""
    return ProcessReport.objects.filter(reported_at__lt=now() - FORGOTTEN_AFTER).delete()[0]
