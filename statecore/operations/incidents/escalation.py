"""Notifies the next channel of critical incidents that no operator has acknowledged."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ...kernel.phrasing import format_duration
from ...kernel.transition import Severity
from ...notifications import Urgency
from ...records import Incident
from ...records.alert import store_notice
from ...records.incident import Action, add_entry


def escalate(at: datetime) -> None:
    """Notifies one further channel for each period without an acknowledgement; snoozed incidents wait."""
    channels, period = settings.STATECORE_ESCALATION_URLS, timedelta(minutes=settings.STATECORE_ESCALATION_MINUTES)
    waiting = Incident.objects.filter(
        resolved_at=None,
        severity=Severity.CRITICAL.value,
        acknowledged_at=None,
        critical_since__lte=at - period,
        escalations__lt=len(channels),
    )
    for incident in waiting:
        since = incident.critical_since or at
        if at >= since + period * (incident.escalations + 1) and not incident.is_snoozed(at):
            _notify(incident, channels[incident.escalations], len(channels), at)


def _notify(incident: Incident, url: str, count: int, at: datetime) -> None:
    waited = format_duration(at - (incident.critical_since or incident.opened_at))
    subject = f"CRITICAL, not acknowledged for {waited}: {incident.cause}"
    unchanged = Incident.objects.filter(pk=incident.pk, escalations=incident.escalations, acknowledged_at=None)
    with transaction.atomic():
        if unchanged.update(escalations=F("escalations") + 1):
            text = f"{subject}\nincident: {incident.pk}\nrule: {incident.rule}\naffected: {_describe_counts(incident)}"
            store_notice(url, subject, text, at, urgency=Urgency.FAILURE)
            add_entry(incident, at, Action.ESCALATED, f"to channel {incident.escalations + 1} of {count}")


def _describe_counts(incident: Incident) -> str:
    parts = [f"{count} {name.replace('_', ' ')}" for name, count in sorted(incident.counts.items())]
    return ", ".join(parts) or "the installation"
