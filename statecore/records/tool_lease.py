"""A lease of a tool: which callers use it at the moment, and how many failures each has reported."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F

from ..kernel.actors import IDENTITY_LENGTH
from ..kernel.clock import now
from .token import owners_of


class ToolLease(models.Model):
    tool = models.ForeignKey("statecore.CircuitBreaker", models.PROTECT, related_name="leases")
    holder = models.CharField(max_length=IDENTITY_LENGTH)
    # Reported since the last success of any caller.
    failures = models.PositiveIntegerField(default=0)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("tool", "holder"), name="tool_lease_one_per_holder"),)

    def __str__(self) -> str:
        return f"lease of {self.tool_id} by {self.holder}"


def select_live(tool_id: str) -> Any:
    return ToolLease.objects.filter(tool=tool_id, expires_at__gt=now())


def renew(tool_id: str, holder: str) -> None:
    """Give the caller a lease, or extend it; a lease with more than half of its time left is not written again."""
    at, duration = now(), timedelta(seconds=settings.STATECORE_TOOL_LEASE_SECONDS)
    leases = ToolLease.objects.filter(tool=tool_id)
    if leases.filter(holder=holder, expires_at__gt=at + duration / 2).exists():
        return
    leases.filter(expires_at__lte=at).delete()
    ToolLease.objects.update_or_create(tool_id=tool_id, holder=holder, defaults={"expires_at": at + duration})


def count_failure(tool_id: str, holder: str) -> bool:
    """Add a failure to the caller's lease; return False if it has none."""
    return bool(select_live(tool_id).filter(holder=holder).update(failures=F("failures") + 1))


def clear_failures(tool_id: str) -> None:
    ToolLease.objects.filter(tool=tool_id, failures__gt=0).update(failures=0)


def is_alone_with_failures(tool_id: str, holder: str) -> bool:
    """Whether other accounts use the tool and none of them has reported a failure."""
    leases: dict[str, int] = dict(select_live(tool_id).values_list("holder", "failures"))
    owners = owners_of({holder, *leases})
    others = [failures for each, failures in leases.items() if owners[each] != owners[holder]]
    return bool(others) and not any(others)
