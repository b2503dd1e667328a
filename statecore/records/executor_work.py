"""The work that executors do: running gates, applying patches. All processes agree on it.

An executor declares its work in the database when it starts, because other processes may not have its settings. Only
the owner of the database takes a declaration back (`manage.py executors --off`): otherwise agents could do the work of
executors that are stopped for a while.
"""

from __future__ import annotations

import socket

from django.conf import settings
from django.db import models

from ..kernel import registry
from ..kernel.clock import now
from ..kernel.flow import Flow


class ExecutorWork(models.Model):
    # The setting that enables the work, as the machine declares it.
    setting = models.CharField(primary_key=True, max_length=64)
    host = models.CharField(max_length=255)
    declared_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.setting} on {self.host}"


def declare() -> None:
    """Declare the work that the settings of this process enable; for a process of the executors."""
    for name in {flow.executors for flow in registry.flows() if is_enabled(flow)}:
        defaults = {"host": socket.gethostname(), "declared_at": now()}
        ExecutorWork.objects.get_or_create(setting=name, defaults=defaults)


def is_enabled(flow: Flow) -> bool:
    """Whether the settings of this process let executors change entities of this machine."""
    return bool(flow.executors and getattr(settings, flow.executors))


def is_done_by_executors(flow: Flow) -> bool:
    """Whether only executors change entities of this machine, whatever the settings of this process."""
    return is_enabled(flow) or (bool(flow.executors) and ExecutorWork.objects.filter(pk=flow.executors).exists())


def list_unknown() -> list[ExecutorWork]:
    """Return the declared work that the settings of this process do not have."""
    return [each for each in ExecutorWork.objects.order_by("pk") if not getattr(settings, each.setting, None)]


def withdraw() -> int:
    """Take back all declarations and return their number. An executor that starts later declares its work again."""
    return ExecutorWork.objects.all().delete()[0]
