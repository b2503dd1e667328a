"""Incidents: root causes with everything that hangs on them, and what operators did about them.

The sweep in `statecore.operations.incidents` opens, updates and resolves them; operators acknowledge, assign, snooze
and annotate them here. An operator's change raises the version, so that of two operators the later one is refused.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.db.models import F, Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import format_utc, now, rfc3339
from ..kernel.ids import ID_LENGTH
from ..kernel.refusals import AlreadyInState, Invalid, NotFound, StaleVersion
from ..kernel.transition import Severity
from ..kernel.validation import text_error
from .alert import NEVER_SILENCED, Alert, check_silence

KEY_LENGTH, NOTE_LENGTH = 200, 2_000
MAX_ID = 2**63 - 1
RETENTION = timedelta(days=90)
SYSTEM = "system"
CHANGE_PERMISSION = "statecore.change_incident"


class Action(models.TextChoices):
    OPENED = "opened"
    REOPENED = "reopened"
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    ACKNOWLEDGED = "acknowledged"
    ASSIGNED = "assigned"
    SNOOZED = "snoozed"
    WOKEN = "woken"
    NOTED = "noted"


class Incident(models.Model):
    # The root cause: `task t4`, `no_worker git`, `alert failure_rate failures`.
    key = models.CharField(max_length=KEY_LENGTH)
    # The alert rule whose section of the runbook applies.
    rule = models.CharField(max_length=32)
    severity = models.CharField(max_length=16)
    cause = models.TextField()
    # The root cause, if it is an entity.
    entity_type = models.CharField(max_length=32, blank=True)
    entity_id = models.CharField(max_length=ID_LENGTH, blank=True)
    # The machines that the cause contains information about; empty if it is about the installation as a whole.
    about = models.JSONField(default=list)
    # The number of entities that hang on it by machine, of runs, and since when the first of them does.
    counts = models.JSONField(default=dict)
    runs = models.PositiveIntegerField(default=0)
    since = models.DateTimeField()
    # The suggested actions, for operators with all permissions, the best one first.
    actions = models.JSONField(default=list)
    opened_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    owner = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    acknowledged_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    acknowledged_at = models.DateTimeField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    # Since when it has been critical, and how many further channels were notified because no operator acknowledged it.
    critical_since = models.DateTimeField(null=True)
    escalations = models.PositiveSmallIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        default_permissions = ("view", "change")
        constraints = (
            models.UniqueConstraint(fields=("key",), condition=Q(resolved_at=None), name="incident_open_once"),
        )
        indexes = (
            models.Index(fields=("key", "-id"), name="incident_by_key"),
            models.Index(fields=("severity", "since"), condition=Q(resolved_at=None), name="incident_open"),
        )

    def __str__(self) -> str:
        return f"incident {self.pk}: {self.cause}"

    def is_snoozed(self, at: datetime) -> bool:
        is_quiet = self.snoozed_until is not None and self.snoozed_until > at
        return is_quiet and self.may_be_snoozed()

    def may_be_snoozed(self) -> bool:
        """Not if stored data cannot be trusted."""
        return self.rule not in NEVER_SILENCED

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.pk,
            "version": self.version,
            "rule": self.rule,
            "severity": self.severity,
            "cause": self.cause,
            "entity_type": self.entity_type or None,
            "entity_id": self.entity_id or None,
            "counts": self.counts,
            "runs": self.runs,
            "since": rfc3339(self.since),
            "opened_at": rfc3339(self.opened_at),
            "resolved_at": self.resolved_at and rfc3339(self.resolved_at),
            "owner": self.owner or None,
            "acknowledged_by": self.acknowledged_by or None,
            "acknowledged_at": self.acknowledged_at and rfc3339(self.acknowledged_at),
            "snoozed_until": self.snoozed_until and rfc3339(self.snoozed_until),
            "escalations": self.escalations,
        }


class IncidentEntity(models.Model):
    """An entity that hangs on an incident: it is stuck or blocked, and this is its root cause."""

    incident = models.ForeignKey(Incident, models.CASCADE, related_name="entities", db_index=False)
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    kind = models.CharField(max_length=16)
    run_id = models.CharField(max_length=ID_LENGTH, blank=True)
    since = models.DateTimeField()
    due_at = models.DateTimeField()
    # When it makes the incident critical; NULL for never.
    critical_at = models.DateTimeField(null=True)
    # When its root cause was determined.
    checked_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("entity_type", "entity_id"), name="incident_entity_once"),)
        indexes = (
            models.Index(fields=("incident", "due_at", "id"), name="incident_entities"),
            models.Index(fields=("checked_at",), name="incident_entity_checked"),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id}"


class IncidentEntry(models.Model):
    """An entry of an incident's history."""

    incident = models.ForeignKey(Incident, models.CASCADE, related_name="history", db_index=False)
    at = models.DateTimeField()
    actor = models.CharField(max_length=NAME_LENGTH)
    action = models.CharField(max_length=16, choices=Action.choices)
    text = models.TextField(blank=True, default="")

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=("incident", "id"), name="incident_history"),)

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"

    def as_dict(self) -> dict[str, Any]:
        return {"at": rfc3339(self.at), "actor": self.actor, "action": self.action, "text": self.text}


def get(incident_id: int) -> Incident:
    found = Incident.objects.filter(pk=incident_id).first() if 0 <= incident_id <= MAX_ID else None
    if found is None:
        raise NotFound(f"there is no incident {incident_id}")
    return found


def add_entry(incident: Incident, at: datetime, action: Action, text: str = "", actor: str = SYSTEM) -> None:
    IncidentEntry.objects.create(incident=incident, at=at, actor=actor, action=action, text=text)


def forget() -> int:
    """Delete incidents that were resolved long ago, and return their number."""
    return Incident.objects.filter(resolved_at__lt=now() - RETENTION).delete()[1].get(Incident._meta.label, 0)


# What operators do. Each raises NotFound, AlreadyInState for a resolved incident, StaleVersion, and Invalid for a text
# that cannot be stored.


def acknowledge(incident_id: int, name: str, *, note: str = "", version: int | None = None) -> Incident:
    """Acknowledge an incident; the first acknowledgement is kept. The owner is set if there is none."""
    _check_text("note", note)
    with transaction.atomic():
        incident = _lock(incident_id, version)
        if incident.acknowledged_at is None:
            fields = {"acknowledged_by": name, "acknowledged_at": now(), "owner": incident.owner or name}
            _change(incident, name, Action.ACKNOWLEDGED, note, **fields)
    return incident


def assign(incident_id: int, name: str, owner: str, *, note: str = "", version: int | None = None) -> Incident:
    """Set the owner, which is an active account; an empty name removes it."""
    _check_text("note", note)
    _check_text("owner", owner, NAME_LENGTH)
    if owner and not get_user_model().objects.filter(username=owner, is_active=True).exists():
        raise Invalid({"owner": [f"there is no active account {owner}."]})
    with transaction.atomic():
        incident = _lock(incident_id, version)
        if incident.owner != owner:
            words = f"to {owner}" if owner else "owner removed"
            _change(incident, name, Action.ASSIGNED, f"{words}: {note}" if note else words, owner=owner)
    return incident


def snooze(
    incident_id: int, name: str, until: datetime | None, *, note: str = "", version: int | None = None
) -> Incident:
    """Snooze an incident and silence its alerts until a time; None ends both."""
    _check_text("note", note)
    with transaction.atomic():
        incident = _lock(incident_id, version)
        if until is not None:
            check_silence(until, [incident.rule])
        words = f"until {format_utc(until)}" if until else ""
        action = Action.SNOOZED if until else Action.WOKEN
        _change(incident, name, action, ": ".join(filter(None, (words, note))), snoozed_until=until)
        silence = {"silenced_until": until, "silenced_by": name if until else ""}
        Alert.objects.filter(incident=incident, resolved_at=None).update(**silence)
    return incident


def annotate(incident_id: int, name: str, note: str, *, version: int | None = None) -> Incident:
    """Add a note to the history, also of a resolved incident."""
    if not note.strip():
        raise Invalid({"note": ["must not be empty."]})
    _check_text("note", note)
    with transaction.atomic():
        incident = _lock(incident_id, version, is_open=False)
        _change(incident, name, Action.NOTED, note)
    return incident


def _check_text(field: str, text: str, limit: int = NOTE_LENGTH) -> None:
    if complaint := text_error(text, limit):
        raise Invalid({field: [complaint]})


def _lock(incident_id: int, version: int | None, *, is_open: bool = True) -> Incident:
    get(incident_id)
    incident = Incident.objects.select_for_update().get(pk=incident_id)
    if version is not None and incident.version != version:
        facts = {"expected": version, "version": incident.version}
        raise StaleVersion(f"incident {incident_id} has changed: it is version {incident.version}", **facts)
    if is_open and incident.resolved_at is not None:
        raise AlreadyInState(f"incident {incident_id} is resolved", version=incident.version)
    return incident


def _change(incident: Incident, name: str, action: Action, text: str, **fields: Any) -> None:
    Incident.objects.filter(pk=incident.pk).update(**fields, version=F("version") + 1)
    for field, value in {**fields, "version": incident.version + 1}.items():
        setattr(incident, field, value)
    add_entry(incident, now(), action, text, name)


def rank_severity(severity: str) -> int:
    """The most severe first."""
    order = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING)
    return order.index(Severity(severity)) if severity in order else len(order)
