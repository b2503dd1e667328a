"""Puts each open alert to the incident of its subject."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...delivery.sinks.alert_rules import ENTRY_RULES
from ...kernel import registry
from ...read_models.incidents.root_cause import OWN, RootCause, name_entity
from ...read_models.incidents.suggestions import suggest_actions
from ...read_models.stuck import Kind, name_missing_worker
from ...read_models.stuck.chain import find_chain
from ...records import Alert, Incident, IncidentEntity
from ...records.alert import INTEGRITY, INVARIANT, NO_WORKER
from .lifecycle import open_incident

MAX_ALERTS = 1_000  # that a sweep reads, the oldest first
FLOWS = {rule.name: rule.flow for rule in ENTRY_RULES}
WITHOUT_INCIDENT = {"stuck", "blocked_tasks"}  # they sum up entities that hang on other incidents


def update_alerts(at: datetime) -> None:
    for alert in Alert.objects.filter(resolved_at=None).order_by("pk")[:MAX_ALERTS]:
        incident = None if alert.rule in WITHOUT_INCIDENT else _find_incident(alert, at)
        incident_id = incident.pk if incident else None
        if alert.incident_id != incident_id:
            Alert.objects.filter(pk=alert.pk).update(incident=incident_id)


def _find_incident(alert: Alert, at: datetime) -> Incident | None:
    if alert.rule in DERIVED:
        return DERIVED[alert.rule](alert)
    flow = FLOWS.get(alert.rule)
    if flow is not None:
        return _open_for_entity(alert, flow.model, at)
    if alert.rule == NO_WORKER:
        cause = RootCause(
            name_missing_worker(alert.facts["capabilities"]), alert.facts["cause"], "", "", ("task", "worker")
        )
        return open_incident(cause.key, cause, [], at)
    key = f"alert {alert.rule} {alert.key}"
    return open_incident(key, RootCause(key, alert.detail, "", "", _list_machines(alert)), [], at)


def _open_for_entity(alert: Alert, model: Any, at: datetime) -> Incident:
    """The incident of an entity whose state is the cause, with what an operator may do about it."""
    entity_type, entity = model.flow.entity_type, model.objects.filter(pk=alert.key).first()
    key = name_entity(entity_type, alert.key)
    text = f"{alert.detail[:1].upper()}{alert.detail[1:]}"
    root = RootCause(key, text, entity_type, alert.key, (entity_type,))
    if entity is None or entity.flow.is_final(entity.state):
        return open_incident(key, root, [], at)
    actions = suggest_actions(entity, find_chain(entity, at), Kind.OVERDUE, at)
    return open_incident(key, root, [each._asdict() for each in actions], at)


def _find_by_entity(alert: Alert) -> Incident | None:
    """`needs_decision` names the entity that waits, which hangs on the incident of what it waits for."""
    entity_type, _space, entity_id = alert.key.partition(" ")
    rows = IncidentEntity.objects.select_related("incident").filter(entity_type=entity_type, entity_id=entity_id)
    return row.incident if (row := rows.first()) else None


def _find_late_tasks(alert: Alert) -> Incident | None:
    return Incident.objects.filter(key=f"{OWN} task.running", resolved_at=None).first()


DERIVED: dict[str, Callable[[Alert], Incident | None]] = {
    "needs_decision": _find_by_entity,
    "no_progress": _find_late_tasks,
}


def _list_machines(alert: Alert) -> tuple[str, ...]:
    """The machine whose entities a check found; none for an alert about the installation as a whole."""
    found = alert.facts.get("entity_type") if alert.rule in (INTEGRITY, INVARIANT) else None
    return tuple(flow.entity_type for flow in registry.flows() if flow.entity_type == found)
