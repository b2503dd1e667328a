"""Reads requests for approval for the inbox, the navigation and the pages of entities."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Q

from statecore.dashboard import permissions
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.kernel.ids import is_valid_id
from statecore.records.approval import Approval, Status, with_status

MAX_PENDING, PAGE_SIZE = 100, 50


def list_pending(entity_types: list[str]) -> list[Approval]:
    """The pending requests that the user may see, the one that expires next first."""
    return list(with_status(Status.PENDING).filter(entity_type__in=entity_types).order_by("expires_at")[:MAX_PENDING])


def count_pending(entity_types: list[str]) -> int:
    return with_status(Status.PENDING).filter(entity_type__in=entity_types).count()


def list_decided(entity_types: list[str], before: str = "") -> list[Approval]:
    """One page of closed requests and one more, newest first."""
    rows = with_status(None).filter(entity_type__in=entity_types)
    rows = rows.filter(Q(decision__isnull=False) | Q(expires_at__lte=now()))
    if is_valid_id(before):
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[: PAGE_SIZE + 1])


def list_pending_of(entity: Entity) -> list[Approval]:
    rows = with_status(Status.PENDING).filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
    return list(rows.filter(version=entity.version).order_by("pk")[:MAX_PENDING])


def count_to_decide(user: Any) -> int:
    """How many pending requests this user may decide.

    Every page shows it: an installation without a policy pays no query for it.
    """
    if not settings.STATECORE_SECOND_PERSON:
        return 0
    flows = [flow for flow in permissions.visible_machines(user) if permissions.is_allowed(user, flow, "override")]
    if not flows:
        return 0
    rows = with_status(Status.PENDING).filter(entity_type__in=[flow.entity_type for flow in flows])
    return rows.exclude(account=user.pk).count()
