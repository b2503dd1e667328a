"""The list of incidents, the most severe first, and the summary on the board.

What a user sees of an incident depends on the machines that they may see: of a cause that is about others only that
there is one, and the counts of their machines. Incidents about the installation as a whole are shown to users who see
all machines.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, QuerySet, Value, When

from ...kernel import registry
from ...kernel.clock import now
from ...kernel.flow import Flow
from ...kernel.transition import Severity
from ...records import Incident
from ...records.incident import rank_severity
from ..stuck.visibility import HIDDEN, VisibleMachines

MAX_SUMMARIZED = 1_000  # incidents that the board reads
MAX_WORST = 8  # that it names
RANK = Case(*(When(severity=each.value, then=rank_severity(each.value)) for each in Severity), default=Value(9))
HIDDEN_CAUSE = f"{HIDDEN[:1].upper()}{HIDDEN[1:]} needs attention"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list; None for a field that does not matter."""

    is_open: bool | None = None
    is_snoozed: bool | None = None
    is_acknowledged: bool | None = None
    owner: str | None = None
    severity: str | None = None
    rule: str | None = None

    def condition(self, at: datetime) -> Q:
        condition = Q()
        if self.is_open is not None:
            condition &= Q(resolved_at__isnull=self.is_open)
        if self.is_snoozed is not None:
            snoozed = Q(snoozed_until__gt=at)
            condition &= snoozed if self.is_snoozed else Q(snoozed_until=None) | Q(snoozed_until__lte=at)
        if self.is_acknowledged is not None:
            condition &= Q(acknowledged_at__isnull=not self.is_acknowledged)
        for name in ("owner", "severity", "rule"):
            if (wanted := getattr(self, name)) is not None:
                condition &= Q(**{name: wanted})
        return condition


class IncidentPage(NamedTuple):
    incidents: list[Incident]
    more: bool


def list_incidents(
    wanted: IncidentFilter, *, visible: VisibleMachines = None, offset: int = 0, limit: int = 50
) -> IncidentPage:
    """Returns open incidents by severity and age, resolved ones the latest first."""
    rows = Incident.objects.filter(wanted.condition(now()))
    rows = rows.order_by("-resolved_at", "-pk") if wanted.is_open is False else _order_by_urgency(rows)
    found: list[Incident] = []
    # Which of them the user may see depends on JSON, so they are read in pages until there are enough.
    start, step = 0, offset + limit + 1
    while len(found) < offset + limit + 1 and (batch := list(rows[start : start + step])):
        found += [each for each in batch if is_shown(each, visible)]
        start += step
    return IncidentPage(found[offset : offset + limit], len(found) > offset + limit)


def list_newest(
    wanted: IncidentFilter, *, before: int | None = None, visible: VisibleMachines = None, limit: int = 50
) -> IncidentPage:
    """Returns incidents with an id below `before`, newest first."""
    rows = Incident.objects.filter(wanted.condition(now())).order_by("-pk")
    found: list[Incident] = []
    while len(found) <= limit:
        batch = list((rows if before is None else rows.filter(pk__lt=before))[: limit + 1])
        found += [each for each in batch if is_shown(each, visible)]
        if len(batch) <= limit:
            break
        before = batch[-1].pk
    return IncidentPage(found[:limit], len(found) > limit)


def find_open(keys: Collection[str]) -> dict[str, Incident]:
    return {each.key: each for each in Incident.objects.filter(key__in=keys, resolved_at=None)}


def _order_by_urgency(rows: QuerySet[Incident]) -> QuerySet[Incident]:
    return rows.order_by(F("resolved_at").desc(nulls_first=True), RANK, "since", "pk")


def is_shown(incident: Incident, visible: VisibleMachines) -> bool:
    """Whether a user may see that this incident exists."""
    return _may_see_cause(incident, visible) or any(each in (visible or ()) for each in incident.counts)


def _may_see_cause(incident: Incident, visible: VisibleMachines) -> bool:
    if visible is None:
        return True
    about = incident.about or [flow.entity_type for flow in registry.flows()]
    return all(each in visible for each in about)


def serialize_incident(incident: Incident, visible: VisibleMachines = None) -> dict[str, Any]:
    """Returns an incident as the user may see it."""
    shown = incident.as_dict()
    if visible is None:
        return shown
    shown["counts"] = {name: count for name, count in incident.counts.items() if name in visible}
    if "run" not in visible:
        shown["runs"] = 0
    if not _may_see_cause(incident, visible):
        shown |= {"cause": HIDDEN_CAUSE, "entity_type": None, "entity_id": None}
    return shown


def read_summary() -> list[Incident]:
    """Returns the open incidents that the board summarises, the most urgent first."""
    return list(_order_by_urgency(Incident.objects.filter(resolved_at=None))[:MAX_SUMMARIZED])


def summarize(open_now: list[Incident], at: datetime, visible: VisibleMachines = None) -> dict[str, Any]:
    """Returns the counts of the open incidents that a user may see, and the worst of them."""
    shown = [each for each in open_now if is_shown(each, visible)]
    active = [each for each in shown if not each.is_snoozed(at)]
    return {
        "open": len(active),
        "critical": sum(each.severity == Severity.CRITICAL for each in active),
        "unacknowledged": sum(each.acknowledged_at is None for each in active),
        "snoozed": len(shown) - len(active),
        "worst": [_shorten(serialize_incident(each, visible)) for each in active[:MAX_WORST]],
    }


def _shorten(shown: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "severity", "rule", "cause", "counts", "runs", "since", "owner", "acknowledged_by")
    return {**{name: shown[name] for name in names}, "impact": describe_impact(shown["counts"], shown["runs"])}


def describe_impact(counts: dict[str, int], runs: int) -> str:
    """`280 tasks, 1 gate in 2 runs`, in the order of the machines."""
    known = {flow.entity_type: flow for flow in registry.flows()}
    parts = [count_things(counts[name], flow) for name, flow in known.items() if counts.get(name)]
    within = "" if not runs or set(counts) == {"run"} else f" in {runs} run{'s' if runs > 1 else ''}"
    return ", ".join(parts) + within if parts else ""


def count_things(count: int, flow: Flow) -> str:
    words = flow.event_noun.replace("_", " ") if count == 1 else flow.collection.replace("-", " ")
    return f"{count:,} {words}"
