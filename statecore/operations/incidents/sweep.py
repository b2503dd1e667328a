"""The sweep: what hangs on which cause, how much, how severe it is, and what is over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Min

from ...kernel.clock import now
from ...kernel.transition import Severity
from ...read_models.incidents.root_cause import OWN, describe_own_cause
from ...read_models.stuck import Kind
from ...records import Alert, Incident, IncidentEntity
from ...records.alert import NO_WORKER
from ...records.incident import rank_severity
from .escalation import escalate
from .lifecycle import resolve_incident
from .missing_workers import alert_missing_workers
from .open_alerts import update_alerts
from .stuck_entities import update_entities

# The section of the runbook for entities of this kind, the most specific one first.
RULES = {
    Kind.NEEDS_DECISION: "needs_decision",
    Kind.NO_PROGRESS: "no_progress",
    Kind.OVERDUE: "stuck",
    Kind.NEEDS_APPROVAL: "stuck",
    Kind.BLOCKED: "blocked_tasks",
}


@dataclass
class Impact:
    """What hangs on an incident."""

    counts: dict[str, int] = field(default_factory=dict)
    kinds: set[Kind] = field(default_factory=set)
    runs: int = 0
    since: list[datetime] = field(default_factory=list)
    critical_at: list[datetime] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return not self.counts and not self.alerts


def sweep() -> None:
    """Opens, updates, resolves and escalates incidents. Two sweeps at once come to the same result."""
    at = now()
    alert_missing_workers(at)
    update_entities(at)
    update_alerts(at)
    impacts = _measure_impacts()
    for incident in Incident.objects.filter(resolved_at=None):
        impact = impacts[incident.pk]
        if impact.is_over:
            resolve_incident(incident, at)
        else:
            _update(incident, impact, at)
    escalate(at)


def _measure_impacts() -> dict[int, Impact]:
    impacts: dict[int, Impact] = defaultdict(Impact)
    rows = IncidentEntity.objects.order_by().values_list("incident", "entity_type", "kind")
    for pk, entity_type, kind, *numbers in rows.annotate(Count("pk"), Min("since"), Min("critical_at")):
        count, since, critical_at = numbers
        impact = impacts[pk]
        impact.counts[entity_type] = impact.counts.get(entity_type, 0) + count
        impact.kinds.add(Kind(kind))
        impact.since.append(since)
        impact.critical_at += [critical_at] if critical_at else []
    runs = IncidentEntity.objects.exclude(run_id="").order_by().values_list("incident")
    for pk, count in runs.annotate(Count("run_id", distinct=True)):
        impacts[pk].runs = count
    for alert in Alert.objects.filter(resolved_at=None).exclude(incident=None):
        impacts[alert.incident_id or 0].alerts.append(alert)
    return impacts


def _update(incident: Incident, impact: Impact, at: datetime) -> None:
    severity = _choose_severity(impact, at)
    is_critical = severity == Severity.CRITICAL
    fields: dict[str, Any] = {
        "counts": impact.counts,
        "runs": impact.runs,
        "since": min([*impact.since, *(alert.opened_at for alert in impact.alerts)]),
        "severity": severity.value,
        "rule": _choose_rule(impact),
        "critical_since": (incident.critical_since or at) if is_critical else None,
        **_describe_own_cause(incident, impact),
        **_read_queue(impact),
    }
    if changed := {name: value for name, value in fields.items() if getattr(incident, name) != value}:
        Incident.objects.filter(pk=incident.pk, resolved_at=None).update(**changed)


def _choose_severity(impact: Impact, at: datetime) -> Severity:
    found = [Severity(alert.severity) for alert in impact.alerts]
    is_far_overdue = any(moment <= at for moment in impact.critical_at)
    return min([*found, Severity.CRITICAL if is_far_overdue else Severity.WARNING], key=rank_severity)


def _choose_rule(impact: Impact) -> str:
    if impact.alerts:
        return min(impact.alerts, key=lambda alert: (rank_severity(alert.severity), alert.pk)).rule
    return next(rule for kind, rule in RULES.items() if kind in impact.kinds)


def _describe_own_cause(incident: Incident, impact: Impact) -> dict[str, str]:
    """Several late entities have no more in common than their state; of a single one, the cause is described."""
    count = sum(impact.counts.values())
    is_group = incident.key.startswith(f"{OWN} ") and count > 1
    return {"cause": describe_own_cause(incident.key, count)} if is_group else {}


def _read_queue(impact: Impact) -> dict[str, Any]:
    """The alert counts all queued tasks, also those that are not late yet."""
    for alert in impact.alerts:
        if alert.rule == NO_WORKER:
            since = datetime.fromisoformat(alert.facts["since"])
            return {
                "counts": {**impact.counts, "task": max(alert.facts["count"], impact.counts.get("task", 0))},
                "runs": max(alert.facts["runs"], impact.runs),
                "since": min([*impact.since, since]),
            }
    return {}
