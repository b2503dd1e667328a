"""Opens one alert per rule and subject, and resolves it automatically once the condition clears."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache

from django.db import transaction
from django.db.models import Count

from ...journal import TRANSITION_KINDS
from ...journal.epochs import Epoch
from ...kernel.clock import now
from ...kernel.transition import Severity
from ...read_models.database_gauge import DatabaseGauge
from ...records import Alert
from ...records.alert import EPOCH, find_silence
from .alert_rules import (
    SYSTEM_RULES,
    CountRule,
    EntryRule,
    Violation,
    get_limit,
    list_count_rules,
    list_entry_rules,
    list_rules,
)
from .notices import store_opened, store_resolved
from .sink import Batch, NumberedEvent, Sink

SYSTEM_NAMES = tuple(rule.name for rule in SYSTEM_RULES)


@cache
def _list_rules_of(entity_type: str) -> list[EntryRule]:
    return [rule for rule in list_entry_rules() if rule.flow.entity_type == entity_type]


class OpenAlerts(DatabaseGauge):
    name = "statecore_open_alerts"
    documentation = "Open alerts"
    labels = ("rule", "severity")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """Includes rules without open alerts, so that Prometheus sees an alert resolve instead of disappear."""
        found = dict(Alert.objects.filter(resolved_at=None).values_list("rule").annotate(count=Count("pk")))
        for rule in list_rules():
            yield (rule.name, str(rule.severity)), found.get(rule.name, 0)


class Alerts(Sink):
    name = "alerts"

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            _evaluate_entry_rules(event)

    def tick(self, at: datetime) -> None:
        evaluate(at)


def _evaluate_entry_rules(event: NumberedEvent) -> None:
    entry = event.entry
    if entry.kind not in TRANSITION_KINDS:
        return
    for rule in _list_rules_of(entry.entity_type):
        if entry.to_state == rule.state:
            detail = rule.detail.format(entry.entity_id)
            violation = Violation(entry.entity_id, detail, {"event_id": entry.event_id})
            open_or_update(rule.name, rule.severity, violation, entry.timestamp)
        elif entry.to_state in rule.still_open:
            detail = rule.still_open[entry.to_state].format(entry.entity_id)
            Alert.objects.filter(rule=rule.name, key=entry.entity_id, resolved_at=None).update(detail=detail)
        elif entry.to_state in rule.ends_in:
            if rule.still_open:  # a resolved alert has the text that it was opened with
                detail = rule.detail.format(entry.entity_id)
                Alert.objects.filter(rule=rule.name, key=entry.entity_id, resolved_at=None).update(detail=detail)
            resolve(rule.name, {entry.entity_id}, entry.timestamp)


def evaluate(at: datetime) -> None:
    """Evaluates the count rules, and resolves alerts that expire after some minutes or with their acknowledgement."""
    for rule in list_count_rules():
        _evaluate_count_rule(rule, at)
    for entry_rule in list_entry_rules():
        if entry_rule.minutes:
            cutoff = at - timedelta(minutes=get_limit(entry_rule.minutes))
            expired = Alert.objects.filter(rule=entry_rule.name, resolved_at=None, opened_at__lte=cutoff)
            resolve(entry_rule.name, set(expired.values_list("key", flat=True)), at)
    acknowledged = Alert.objects.filter(rule=EPOCH, resolved_at=None).exclude(acknowledged_at=None)
    resolve(EPOCH, set(acknowledged.values_list("key", flat=True)), at)


def _evaluate_count_rule(rule: CountRule, at: datetime) -> None:
    violations = {violation.key: violation for violation in rule.check(at)}
    for violation in violations.values():
        open_or_update(rule.name, rule.severity, violation, at)
    open_keys = Alert.objects.filter(rule=rule.name, resolved_at=None).values_list("key", flat=True)
    resolve(rule.name, set(open_keys) - set(violations), at)


def open_or_update(rule: str, severity: Severity, violation: Violation, at: datetime) -> None:
    """Opens an alert and notifies its receivers, or updates the open alert of the same rule and key."""
    fields = {"detail": violation.detail, "facts": violation.facts}
    if Alert.objects.filter(rule=rule, key=violation.key, resolved_at=None).update(**fields):
        return
    with transaction.atomic():
        silence = find_silence(rule, violation.key, at)
        alert = Alert.objects.create(
            rule=rule, key=violation.key, severity=severity.value, opened_at=at, **fields, **silence
        )
        store_opened(alert, at)


def list_problems() -> list[Alert]:
    """Returns the open alerts about the installation itself, the worst first."""
    found = Alert.objects.filter(rule__in=SYSTEM_NAMES, resolved_at=None).order_by("opened_at")
    return sorted(found, key=lambda alert: -list(Severity).index(Severity(alert.severity)))


def open_epoch_alert(epoch: Epoch) -> None:
    facts = {"epoch": epoch.number, "event_id": epoch.event_id}
    open_or_update(EPOCH, Severity.CRITICAL, Violation(f"epoch-{epoch.number}", epoch.describe(), facts), now())


def resolve(rule: str, keys: set[str], at: datetime) -> None:
    for alert in Alert.objects.filter(rule=rule, key__in=keys, resolved_at=None):
        with transaction.atomic():
            Alert.objects.filter(pk=alert.pk).update(resolved_at=max(at, alert.opened_at))
            store_resolved(alert, at)
