"""Alerts, raised once per rule and key and resolved automatically, and notifications."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now, rfc3339
from ..kernel.refusals import Invalid
from ..kernel.validation import text_error
from ..notifications import Urgency

NOTE_LENGTH = 2_000

# The rules whose alerts say that stored data cannot be trusted.
INTEGRITY, INVARIANT = "integrity", "invariant_broken"
# They are never silenced: a silence would hide the next change too, also one by the operator who set it.
NEVER_SILENCED = {INTEGRITY, INVARIANT}
EPOCH = "epoch"
NO_WORKER = "no_worker"


class Alert(models.Model):
    rule = models.CharField(max_length=32)
    key = models.CharField(max_length=128)
    severity = models.CharField(max_length=16)
    detail = models.TextField()
    facts = models.JSONField(default=dict)
    opened_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    acknowledged_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=NOTE_LENGTH, blank=True, default="")
    # Until then it sends no notifications, also if it resolves and opens again.
    silenced_until = models.DateTimeField(null=True)
    silenced_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="", db_default="")
    incident = models.ForeignKey("statecore.Incident", models.SET_NULL, null=True, related_name="alerts")

    class Meta:
        default_permissions = ("view", "change")
        constraints = (
            models.UniqueConstraint(fields=("rule", "key"), condition=Q(resolved_at=None), name="alert_open_once"),
        )
        indexes = (
            models.Index(fields=("-opened_at",), name="alert_newest_first"),
            models.Index(fields=("resolved_at",), condition=Q(resolved_at__isnull=False), name="alert_by_end"),
        )

    def __str__(self) -> str:
        return f"{self.rule} {self.key}: {self.detail}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.pk,
            "rule": self.rule,
            "key": self.key,
            "severity": self.severity,
            "detail": self.detail,
            "facts": self.facts,
            "opened_at": rfc3339(self.opened_at),
            "resolved_at": self.resolved_at and rfc3339(self.resolved_at),
            "acknowledged_by": self.acknowledged_by or None,
            "acknowledged_at": self.acknowledged_at and rfc3339(self.acknowledged_at),
            "note": self.note or None,
            "silenced_until": self.silenced_until and rfc3339(self.silenced_until),
            "silenced_by": self.silenced_by or None,
            "incident": self.incident_id,
        }

    def is_silenced(self, at: datetime) -> bool:
        is_quiet = self.silenced_until is not None and self.silenced_until > at
        return is_quiet and self.may_be_silenced()

    def may_be_silenced(self) -> bool:
        return self.rule not in NEVER_SILENCED


class AlertNotice(models.Model):
    """A notification for one receiver: written with its cause, sent later, and retried until sent or given up."""

    # None for the notice of a request for approval.
    alert = models.ForeignKey(Alert, models.CASCADE, null=True, related_name="notices")
    receiver = models.CharField(max_length=16)
    urgency = models.CharField(max_length=16, default=Urgency.INFO.value, db_default=Urgency.INFO.value)
    subject = models.CharField(max_length=200)
    text = models.TextField()
    attempts = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField()
    # Set when the notification was sent or given up.
    done_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("next_try_at",), condition=Q(done_at=None), name="alert_notice_waiting"),
            models.Index(fields=("done_at",), condition=Q(done_at__isnull=False), name="alert_notice_by_end"),
        )

    def __str__(self) -> str:
        return self.subject


def fingerprint(url: str) -> str:
    """Identify a receiver without revealing the secrets in its address."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def store_notices(
    subject: str, text: str, at: datetime, alert: Alert | None = None, urgency: Urgency = Urgency.INFO
) -> None:
    """Store one notice per receiver, so that retrying one receiver does not notify the others again."""
    for url in settings.STATECORE_NOTIFY_URLS:
        store_notice(url, subject, text, at, alert, urgency)


def store_notice(
    url: str, subject: str, text: str, at: datetime, alert: Alert | None = None, urgency: Urgency = Urgency.INFO
) -> None:
    AlertNotice.objects.create(
        alert=alert, receiver=fingerprint(url), subject=subject[:200], text=text, next_try_at=at, urgency=urgency
    )


def acknowledge(alert_id: int, name: str, note: str = "") -> bool:
    """Acknowledge an alert; return False if it already is. The alert stays open until its condition clears.

    Raises Invalid for a note that cannot be stored.
    """
    if complaint := text_error(note, NOTE_LENGTH):
        raise Invalid({"note": [complaint]})
    unacknowledged = Alert.objects.filter(pk=alert_id, acknowledged_at=None)
    return bool(unacknowledged.update(acknowledged_by=name, acknowledged_at=now(), note=note))


def silence(alert_id: int, name: str, until: datetime | None) -> bool:
    """Keep an alert from sending notifications until a moment, or no longer; return whether it is open.

    The silence also covers later alerts of the same rule and key, so that one that comes and goes stays quiet. Raises
    Invalid for a moment that has passed, and for an alert about stored data that cannot be trusted.
    """
    if until is not None:
        check_silence(until, Alert.objects.filter(pk=alert_id).values_list("rule", flat=True))
    fields = {"silenced_until": until, "silenced_by": name if until else ""}
    return bool(Alert.objects.filter(pk=alert_id, resolved_at=None).update(**fields))


def check_silence(until: datetime, rules: Iterable[str]) -> None:
    """Raise Invalid unless alerts of these rules may be silent until then."""
    if until <= now():
        raise Invalid({"until": ["must be in the future."]})
    if loud := sorted(NEVER_SILENCED.intersection(rules)):
        raise Invalid({"until": [f"alerts of {', '.join(loud)} are never silenced: stored data cannot be trusted."]})


def find_silence(rule: str, key: str, at: datetime) -> dict[str, Any]:
    """Return the fields of the silence that a new alert inherits from the last one of the same rule and key."""
    last = Alert.objects.filter(rule=rule, key=key).order_by("-pk").first()
    if last is None or not last.is_silenced(at):
        return {}
    return {"silenced_until": last.silenced_until, "silenced_by": last.silenced_by}
