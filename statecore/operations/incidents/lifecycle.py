"""Opens an incident for a root cause, once, or opens the last one again; and resolves it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from ...kernel.transition import Severity
from ...read_models.incidents.root_cause import RootCause
from ...records import Incident
from ...records.incident import Action, add_entry

REOPENED_WITHIN = timedelta(hours=1)


def open_incident(key: str, root: RootCause, actions: list[dict[str, Any]], at: datetime) -> Incident:
    """Returns the open incident of a root cause with its current description.

    A cause that comes back soon, or while its incident is snoozed, opens the last incident again with its history.
    """
    fields = {
        "cause": root.text,
        "entity_type": root.entity_type,
        "entity_id": root.entity_id,
        "about": list(root.about),
        "actions": actions,
    }
    incident = (
        Incident.objects.filter(key=key, resolved_at=None).first() or _reopen(key, at) or _create(key, fields, at)
    )
    if changed := {name: value for name, value in fields.items() if getattr(incident, name) != value}:
        Incident.objects.filter(pk=incident.pk).update(**changed)
    return incident


def _create(key: str, fields: dict[str, Any], at: datetime) -> Incident:
    try:
        with transaction.atomic():
            severity = Severity.WARNING.value
            incident = Incident.objects.create(key=key, severity=severity, opened_at=at, since=at, **fields)
            add_entry(incident, at, Action.OPENED)
    except IntegrityError:  # another sweep was faster
        incident = Incident.objects.get(key=key, resolved_at=None)
    return incident


def _reopen(key: str, at: datetime) -> Incident | None:
    """An acknowledgement was for the last time; owner, notes and the end of a snooze are kept."""
    recent = Q(resolved_at__gt=at - REOPENED_WITHIN) | Q(snoozed_until__gt=at)
    last = Incident.objects.filter(recent, key=key).order_by("-pk").first()
    if last is None:
        return None
    unacknowledged = {"acknowledged_by": "", "acknowledged_at": None, "escalations": 0}
    try:
        with transaction.atomic():
            if Incident.objects.filter(pk=last.pk, resolved_at=last.resolved_at).update(
                **unacknowledged, resolved_at=None, opened_at=at
            ):
                add_entry(last, at, Action.REOPENED)
    except IntegrityError:  # another sweep was faster
        return Incident.objects.get(key=key, resolved_at=None)
    return Incident.objects.get(pk=last.pk)


def resolve_incident(incident: Incident, at: datetime) -> None:
    with transaction.atomic():
        fields: dict[str, Any] = {"resolved_at": max(at, incident.opened_at), "critical_since": None, "actions": []}
        if Incident.objects.filter(pk=incident.pk, resolved_at=None).update(**fields):
            add_entry(incident, at, Action.RESOLVED)
