"""What other packages have added besides machines; `statecore.framework.extensions` fills it at start-up.

Each list is read by the part of Statecore that uses it, so that no part imports those above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from django.urls import URLPattern


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console: its route, its title in the navigation, and the permission to see it there."""

    route: URLPattern
    title: str
    permission: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """A Celery task that beat starts repeatedly, and the queue whose workers execute it."""

    task: str
    every: timedelta
    queue: str

    def as_entry(self) -> dict[str, Any]:
        """Returns the entry of the beat schedule. What no worker took in time expires; the next one does its work."""
        expires = max(self.every.total_seconds(), settings.STATECORE_SWEEP_EXPIRY_SECONDS)
        options = {"expires": expires, "queue": self.queue}
        return {"task": self.task, "schedule": self.every, "options": options}


sinks: list[Callable[[], Any]] = []
alert_rules: list[Any] = []
api_routes: list[URLPattern] = []
pages: list[Page] = []
sweeps: list[Sweep] = []
