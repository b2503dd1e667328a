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

    def describe_silence(self, at: datetime) -> str:
        return f"{self.name} (process {self.pid}) has not reported for {(at - self.reported_at).total_seconds():.0f} s"

    def replaces(self, other: ProcessReport) -> bool:
        """Whether it was started in place of another one, possibly on another host, as a new container is."""
        return (self.role, self.name) == (other.role, other.name) and self.started_at > other.reported_at


def list_processes() -> list[ProcessReport]:
    return list(ProcessReport.objects.order_by("role", "name", "host", "pid"))


def find_silent(at: datetime) -> list[ProcessReport]:
    """Returns the processes that were killed or hang, except those that others were started in place of."""
    processes = list_processes()
    silent = [each for each in processes if each.is_silent(at)]
    return [each for each in silent if not any(other.replaces(each) for other in processes)]


def forget() -> int:
    """Delete the reports of processes that ended long ago without signing off, and return their number."""
    return ProcessReport.objects.filter(reported_at__lt=now() - FORGOTTEN_AFTER).delete()[0]
