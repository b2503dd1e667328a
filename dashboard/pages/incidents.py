"""Incidents: root causes, what hangs on each, the suggested actions, and who takes care of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.queries import alert_links, incident_actions, runbook
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import NotFound, Refusal, StaleVersion
from statecore.read_models import incidents as read_model
from statecore.read_models import stuck
from statecore.records import Incident
from statecore.records import incident as record

from . import forms
from .lookup import get_entity
from .query_params import get_number, get_text

PAGE, DETAIL, LIST, DETAIL_PART, ROW = (
    "dashboard/incidents.html", "dashboard/incident.html", "dashboard/parts/incidents.html",
    "dashboard/parts/incident.html", "dashboard/parts/incident_row.html",
)  # fmt: skip
PAGE_SIZE, ENTITIES_SIZE, MAX_OWNERS = 50, 50, 200
SNOOZES = {"15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day", "10080": "1 week"}
VIEWS = {
    "open": "Open", "unacknowledged": "Not acknowledged", "mine": "Mine", "snoozed": "Snoozed", "resolved": "Resolved",
}  # fmt: skip


@require_safe
def incidents(request: HttpRequest) -> HttpResponse:
    view = get_text(request, "view") if get_text(request, "view") in VIEWS else "open"
    visible, offset = permissions.visible_types(request), get_number(request, "from") or 0
    wanted = _build_filter(view, request.user.get_username())
    page = read_model.list_incidents(wanted, visible=visible, offset=min(offset, 10_000), limit=PAGE_SIZE)
    context = {
        "rows": [_build_row(request, each) for each in page.incidents],
        "views": [(name, title, f"?{urlencode({'view': name})}") for name, title in VIEWS.items()],
        "view": view,
        "totals": read_model.summarize(read_model.read_summary(), now(), visible),
        "is_first": offset == 0,
        "more": offset + PAGE_SIZE if page.more else None,
    }
    return rendering.render(request, LIST if _is_live(request) else PAGE, context)


def _is_live(request: HttpRequest) -> bool:
    """Whether a page that follows the server asks for its current content."""
    return rendering.is_fragment(request) and get_text(request, "part") == "list"


def _build_filter(view: str, name: str) -> read_model.IncidentFilter:
    match view:
        case "unacknowledged":
            return read_model.IncidentFilter(is_open=True, is_snoozed=False, is_acknowledged=False)
        case "mine":
            return read_model.IncidentFilter(is_open=True, owner=name)
        case "snoozed":
            return read_model.IncidentFilter(is_open=True, is_snoozed=True)
        case "resolved":
            return read_model.IncidentFilter(is_open=False)
    return read_model.IncidentFilter(is_open=True, is_snoozed=False)


def _build_row(request: HttpRequest, incident: Incident) -> dict[str, Any]:
    shown = read_model.serialize_incident(incident, permissions.visible_types(request))
    actions = incident_actions.list_actions(request, incident)
    return {
        "incident": incident,
        "cause": shown["cause"],
        "impact": read_model.describe_impact(shown["counts"], shown["runs"]),
        "action": actions[0] if actions else None,
        "is_snoozed": incident.is_snoozed(now()),
        "may_change": incident.resolved_at is None and permissions.may_write(request, record.CHANGE_PERMISSION),
    }


@require_safe
def incident(request: HttpRequest, incident_id: int) -> HttpResponse:
    template = DETAIL_PART if _is_live(request) else DETAIL
    return rendering.render(request, template, _build_context(request, _get(request, incident_id)))


@require_safe
def redirect_from_stuck(request: HttpRequest) -> HttpResponse:
    """The page that listed stuck entities one by one."""
    return HttpResponseRedirect(reverse("console:incidents"))


def _get(request: HttpRequest, incident_id: int) -> Incident:
    permissions.require_visible_machines(request)
    try:
        found = record.get(incident_id)
    except NotFound as refusal:
        raise Http404(f"There is no incident {incident_id}.") from refusal
    if not read_model.is_shown(found, permissions.visible_types(request)):
        raise Http404(f"There is no incident {incident_id}.")
    return found


def _build_context(request: HttpRequest, incident: Incident) -> dict[str, Any]:
    visible, after = permissions.visible_types(request), get_number(request, "after")
    page = read_model.read_entities(incident, now(), after=after, limit=ENTITIES_SIZE, visible=visible)
    shown = read_model.serialize_incident(incident, visible)
    alerts = incident.alerts.order_by("-pk")[:20] if request.user.has_perm("statecore.view_alert") else []
    return {
        **_build_row(request, incident),
        "root": (shown["entity_type"], shown["entity_id"]) if shown["entity_id"] else None,
        "actions": incident_actions.list_actions(request, incident),
        "is_group": incident_actions.is_group(incident),
        "items": [_build_item(request, item) for item in page.items],
        "changeable": _list_changeable(request, incident),
        "more": page.next_after,
        "is_first": after is None,
        "alerts": [(each, alert_links.find_url(request.user, each)) for each in alerts],
        "history": incident.history.order_by("-pk")[:100],
        "runbook": runbook.render_section(incident.rule),
        "snoozes": SNOOZES.items(),
        "owners": _list_owners() if permissions.may_write(request, record.CHANGE_PERMISSION) else [],
        "given": {"note": "", "owner": incident.owner, "minutes": "60", **request.POST.dict()},
    }


def _list_changeable(request: HttpRequest, incident: Incident) -> list[tuple[Flow, int]]:
    """The machines whose entities hang on an open incident and that the user may operate, each with the number."""
    counts = {} if incident.resolved_at else incident.counts
    flows = [flow for flow in registry.flows() if permissions.is_allowed(request.user, flow, "operate")]
    return [(flow, counts[flow.entity_type]) for flow in flows if counts.get(flow.entity_type)]


def _build_item(request: HttpRequest, item: stuck.Item) -> dict[str, Any]:
    may_operate = permissions.is_allowed(request.user, item.entity.flow, "operate")
    return {
        "item": item,
        "flow": item.entity.flow,
        "actions": incident_actions.list_offers(request, item),
        "may_approve": may_operate and item.kind is stuck.Kind.NEEDS_APPROVAL,
    }


def _list_owners() -> list[str]:
    active = get_user_model().objects.filter(is_active=True).order_by("username")
    return list(active.values_list("username", flat=True)[:MAX_OWNERS])


@require_POST
def act(request: HttpRequest, incident_id: int) -> HttpResponse:
    """One of the operator's actions. After a conflict the page shows the current state and keeps what was typed."""
    permissions.require_permission(request, record.CHANGE_PERMISSION)
    permissions.require_writable()
    _get(request, incident_id)
    action = ACTIONS.get(request.POST.get("action", ""))
    if action is None:
        raise Http404("There is no such action.")
    try:
        changed = action(incident_id, request)
    except Refusal as refusal:
        context = {**_build_context(request, _get(request, incident_id)), "refusal": refusal}
        context["is_stale"] = isinstance(refusal, StaleVersion)
        return rendering.render(request, DETAIL, context, status=409 if refusal.status >= 409 else 422)
    if rendering.is_fragment(request):
        return rendering.render(request, ROW, {"row": _build_row(request, changed)})
    return HttpResponseRedirect(reverse("console:incident", args=[incident_id]))


def _read_common(request: HttpRequest) -> dict[str, Any]:
    return {"note": request.POST.get("note", ""), "version": forms.read_expected_version(request)}


def _acknowledge(incident_id: int, request: HttpRequest) -> Incident:
    return record.acknowledge(incident_id, request.user.get_username(), **_read_common(request))


def _assign(incident_id: int, request: HttpRequest) -> Incident:
    owner = request.POST.get("owner", "").strip()
    return record.assign(incident_id, request.user.get_username(), owner, **_read_common(request))


def _take(incident_id: int, request: HttpRequest) -> Incident:
    name = request.user.get_username()
    return record.assign(incident_id, name, name, **_read_common(request))


def _snooze(incident_id: int, request: HttpRequest) -> Incident:
    return record.snooze(incident_id, request.user.get_username(), _read_end(request), **_read_common(request))


def _wake(incident_id: int, request: HttpRequest) -> Incident:
    return record.snooze(incident_id, request.user.get_username(), None, **_read_common(request))


def _annotate(incident_id: int, request: HttpRequest) -> Incident:
    return record.annotate(incident_id, request.user.get_username(), **_read_common(request))


ACTIONS: dict[str, Callable[[int, HttpRequest], Incident]] = {
    "acknowledge": _acknowledge,
    "assign": _assign,
    "take": _take,
    "snooze": _snooze,
    "wake": _wake,
    "note": _annotate,
}


def _read_end(request: HttpRequest) -> datetime:
    minutes = request.POST.get("minutes", "")
    return now() + timedelta(minutes=int(minutes if minutes in SNOOZES else "60"))


@require_POST
def approve(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    """Carries out the recovery that is proposed for an entity."""
    entity = get_entity(request, collection, entity_id, "operate")
    try:
        stuck.approve_recovery(type(entity), entity.pk, actor=permissions.get_actor(request))
    except Refusal as refusal:
        messages.error(request, refusal.detail, extra_tags="bad")
    else:
        messages.success(request, f"Recovery of {entity} approved and completed.", extra_tags="good")
    return HttpResponseRedirect(reverse("console:incidents"))
