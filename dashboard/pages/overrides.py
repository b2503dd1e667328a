"""The list of overrides: before, after, bypassed guards, consequences; refused ones; often-forced transitions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from statecore.dashboard import navigation, permissions, rendering
from statecore.dashboard.queries.history import count_consequences
from statecore.journal import EventKind
from statecore.journal.archive import get_latest_archived_range
from statecore.kernel.clock import now, rfc3339
from statecore.read_models import history
from statecore.read_models.board.stats import SHOWN_MINUTES
from statecore.records import AuditNote, TransitionRollUp
from statecore.records.audit_note import Kind
from statecore.records.roll_up import Resolution

from .query_params import get_number, get_text

PAGE_SIZE, MAX_EDGES, MAX_REFUSED = 50, 8, 20
EDGE_HOURS = 48


@require_safe
def overrides(request: HttpRequest) -> HttpResponse:
    permissions.require_permission(request, "statecore.view_event")
    flows = permissions.require_visible_machines(request)
    visible = [flow.entity_type for flow in flows]
    before, is_last_hour = get_number(request, "before"), get_text(request, "last") == "hour"
    actor, machine = get_text(request, "actor"), get_text(request, "machine")
    machine = machine if machine in visible else ""
    chosen = {"actor": actor, "machine": machine, "last": "hour" if is_last_hour else ""}
    page = history.list_overrides(
        before=before,
        limit=PAGE_SIZE,
        actor=[actor] if actor else [],
        entity_type=[machine] if machine else visible,
        since=_start_of_hour() if is_last_hour else None,
    )
    is_complete = before is None and not any(chosen.values())
    consequences = count_consequences(page.events, visible)
    query = urlencode({name: value for name, value in chosen.items() if value})
    context: dict[str, Any] = {
        "events": [{**event, "consequences": consequences[event["event_id"]]} for event in page.events],
        "more": page.events[-1]["position"] if page.more else None,
        "is_first": before is None,
        "record": None if page.more else get_latest_archived_range(),
        "chosen": chosen,
        "is_filtered": any(chosen.values()),
        "query": f"{query}&" if query else "",
        "machines": [(flow.entity_type, navigation.machine_name(flow)) for flow in flows],
    }
    if rendering.is_fragment(request) and get_text(request, "part") == "list":
        return rendering.render(request, "dashboard/parts/overrides.html", context)
    context |= {
        "edges": _list_forced_edges(visible) if is_complete else [],
        "edge_hours": EDGE_HOURS,
        "max_refused": MAX_REFUSED,
        "refused": _list_refused(visible) if is_complete else [],
    }
    return rendering.render(request, "dashboard/overrides.html", context)


def _start_of_hour() -> datetime:
    """The first of the minutes that the overview counts as the last hour."""
    return now().replace(second=0, microsecond=0) - timedelta(minutes=SHOWN_MINUTES - 1)


def _start_of_edges() -> datetime:
    return Resolution.HOUR.truncate(now() - timedelta(hours=EDGE_HOURS - 1))


def _list_refused(visible: list[str]) -> list[AuditNote]:
    notes = AuditNote.objects.filter(kind=Kind.OVERRIDE_REFUSED, entity_type__in=visible)
    return list(notes.order_by("-pk")[:MAX_REFUSED])


def _list_forced_edges(visible: list[str]) -> list[tuple[Any, ...]]:
    """The edges forced most often in the last days: machine, from, to, overrides, all transitions, their events."""
    edge = ("entity_type", "from_state", "to_state")
    recent = TransitionRollUp.objects.filter(resolution=Resolution.HOUR, start__gte=_start_of_edges())
    rows = recent.filter(entity_type__in=visible).order_by().values_list(*edge)
    rows = rows.annotate(forced=Sum("overrides"), total=Sum("count")).filter(forced__gt=0)
    found = rows.order_by("-forced", *edge)[:MAX_EDGES]
    return [(*row, _events_url(*row[:3], kind=str(EventKind.OVERRIDE)), _events_url(*row[:3])) for row in found]


def _events_url(machine: str, from_state: str, to_state: str, **filters: str) -> str:
    """The audit page with the events that are counted for an edge."""
    edge = {"machine": machine, "from_state": from_state, "to_state": to_state}
    since = rfc3339(_start_of_edges())
    return f"{reverse('console:audit')}?{urlencode({**edge, **filters, 'since': since})}"
