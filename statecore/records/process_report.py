"""The processes of an installation, each of which reports every few seconds that it runs."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from .. import __version__
from ..kernel.clock import now
from ..storage.host import HOST, process_exists

# A process that has not reported for this long is hung, was killed, or has lost its host or the database.
SILENT_AFTER = timedelta(seconds=18)
# A silent process that was not started again is deleted.
FORGOTTEN_AFTER = timedelta(hours=1)
# A process that was started again so often, each time within this time of the one before, is reported.
MANY_RESTARTS = 3
RESTARTS_COUNT_FOR = timedelta(minutes=30)


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
    # How often it was started in place of one that died, each within half an hour of the one before.
    restarts = models.PositiveIntegerField(default=0, db_default=0)
    # How the last one ended, if the program that started it has seen that.
    last_exit = models.CharField(max_length=100, blank=True, default="", db_default="")

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("host", "pid", "role"), name="process_reports_once"),)

    def __str__(self) -> str:
        return f"{self.name} on {self.host} (process {self.pid})"

    def is_silent(self, at: datetime) -> bool:
        return self.reported_at < at - SILENT_AFTER

    def describe_silence(self, at: datetime) -> str:
        return f"{self.name} (process {self.pid}) has not reported for {(at - self.reported_at).total_seconds():.0f} s"

    def dies_often(self, at: datetime) -> bool:
        return self.restarts >= MANY_RESTARTS and self.started_at > at - RESTARTS_COUNT_FOR

    def describe_restarts(self) -> str:
        why = f", the last time because it {self.last_exit}" if self.last_exit else ""
        return f"{self.name} was started again {self.restarts} times{why}"

    def replace_dead(self) -> None:
        """Takes the place of a process of this host that died, unless another new one does."""
        others = ProcessReport.objects.filter(host=self.host, role=self.role).exclude(pk=self.pk)
        for other in sorted(others, key=lambda each: (each.name != self.name, each.reported_at)):
            if not process_exists(other.pid) and ProcessReport.objects.filter(pk=other.pk).delete()[0]:
                self.follow(other)
                return

    def follow(self, dead: ProcessReport) -> None:
        is_recent = self.started_at - dead.started_at < RESTARTS_COUNT_FOR
        self.restarts = dead.restarts + 1 if is_recent else 1
        self.last_exit = self.last_exit or dead.last_exit
        self.save(update_fields=["restarts", "last_exit"])

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


def find_restarted(at: datetime) -> list[ProcessReport]:
    """Returns the processes that were started again too often."""
    return [each for each in list_processes() if each.dies_often(at)]


def record_end(name: str, pid: int, why: str) -> None:
    """Records how a process of this host ended; called by the program that started it.

    One that died before its first report becomes known, so that it is missed.
    """
    at = now()
    key = {"host": HOST, "role": name, "pid": pid}
    given = {"name": name, "version": __version__, "started_at": at, "reported_at": at}
    report, is_new = ProcessReport.objects.get_or_create(**key, defaults=given)
    report.last_exit = why
    report.save(update_fields=["last_exit"])
    if is_new:
        report.replace_dead()


def forget() -> int:
    """Delete the reports of processes that ended long ago without signing off, and return their number."""
    return ProcessReport.objects.filter(reported_at__lt=now() - FORGOTTEN_AFTER).delete()[0]
