"""Raises an alert once for each rule and thing, and resolves it when it is over."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from ..kernel.moves import Severity
from ..records import Alert
from . import notices
from .alert_rules import COUNT_RULES, ENTRY_RULES, Broken, CountRule, limit
from .numbered import Batch, Numbered
from .sink import Sink

BY_MACHINE = {
    entity_type: [rule for rule in ENTRY_RULES if rule.flow.entity_type == entity_type]
    for entity_type in {rule.flow.entity_type for rule in ENTRY_RULES}
}


class Alerts(Sink):
    name = "alerts"

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            _follow(event)

    def tick(self, at: datetime) -> None:
        evaluate(at)


def _follow(event: Numbered) -> None:
    entry = event.entry
    for rule in BY_MACHINE.get(entry.entity_type, ()):
        if entry.to_state == rule.state:
            broken = Broken(entry.entity_id, rule.sentence.format(entry.entity_id), {"event_id": entry.event_id})
            open_(rule.name, rule.severity, broken, entry.timestamp)
        elif entry.to_state in rule.ends_in:
            resolve(rule.name, {entry.entity_id}, entry.timestamp)


def evaluate(at: datetime) -> None:
    """What depends on counts and on the clock, as of now."""
    for rule in COUNT_RULES:
        _judge(rule, at)
    for entry_rule in ENTRY_RULES:
        if entry_rule.minutes:
            over = at - timedelta(minutes=limit(entry_rule.minutes))
            old = Alert.objects.filter(rule=entry_rule.name, resolved_at=None, opened_at__lte=over)
            resolve(entry_rule.name, set(old.values_list("key", flat=True)), at)


def _judge(rule: CountRule, at: datetime) -> None:
    found = {broken.key: broken for broken in rule.check(at)}
    for broken in found.values():
        open_(rule.name, rule.severity, broken, at)
    still = Alert.objects.filter(rule=rule.name, resolved_at=None).values_list("key", flat=True)
    resolve(rule.name, set(still) - set(found), at)


def open_(rule: str, severity: Severity, broken: Broken, at: datetime) -> None:
    """New, or brought up to date without a further notice."""
    told = {"detail": broken.detail, "facts": broken.facts}
    if Alert.objects.filter(rule=rule, key=broken.key, resolved_at=None).update(**told):
        return
    with transaction.atomic():
        alert = Alert.objects.create(rule=rule, key=broken.key, severity=severity.value, opened_at=at, **told)
        notices.write(alert, f"{severity.upper()}: {broken.detail}", at)


def resolve(rule: str, keys: set[str], at: datetime) -> None:
    for alert in Alert.objects.filter(rule=rule, key__in=keys, resolved_at=None):
        with transaction.atomic():
            Alert.objects.filter(pk=alert.pk).update(resolved_at=max(at, alert.opened_at))
            notices.write(alert, f"resolved: {alert.detail}", at)
