"""The page of one entity: diagram, details, history, relations, stored data; why it is stuck; proof of its history."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import permissions, rendering
from statecore.dashboard.diagram import machine_drawing
from statecore.dashboard.navigation import machine_name
from statecore.dashboard.queries import approvals, entities, history, related, runs
from statecore.dashboard.queries.liveness import read_liveness
from statecore.journal import Anchor, Event
from statecore.journal.archive import list_anchors
from statecore.journal.position import head
from statecore.kernel.actors import Kind
from statecore.kernel.clock import now
from statecore.kernel.entity import UNSHOWN, Entity
from statecore.machines.run import Run
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.read_models.diagrams.tones import state_styles
from statecore.read_models.distrust import find_unverified
from statecore.read_models.stuck import Explanation
from statecore.read_models.stuck.explain import explain_entity
from statecore.scheduling import deadlines
from statecore.scheduling.expectations import expected_duration
from statecore.transitions.retry import may_retry

from .approvals import waits_for
from .entity_tabs import get_tab, list_tabs
from .lookup import get_entity

# Shown elsewhere on the page, or in the data tab.
NOT_DETAILS = UNSHOWN | {
    "id", "state", "waived", "waiver", "version", "chain_head", "metadata",
    "state_entered_at", "created_at", "updated_at", "last_heartbeat", "progress", "progress_due_at",
}  # fmt: skip
MAX_DETAIL_LENGTH = 200
SECONDS = ("_sec", "_seconds")


@require_safe
def entity(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    # Read first: events after this position arrive over the socket.
    position = head()
    found = get_entity(request, collection, entity_id)
    tabs, tab = list_tabs(found), get_tab(request, found)
    template = f"dashboard/parts/{tab}.html"
    context = {"entity": found, "flow": found.flow, "tab": tab, **tabs[tab].read(request, found)}
    if rendering.is_fragment(request):
        return rendering.render(request, template, context)
    context["tabs"] = [(name, each.title, name == tab) for name, each in tabs.items()]
    context |= {**_page_context(request, found), "position": position, "tab_template": template}
    return rendering.render(request, "dashboard/entity.html", context)


def _page_context(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    flow, steps = entity.flow, history.list_steps(entity)
    force_url = reverse("console:force", args=[flow.collection, entity.pk])
    successor = entities.find_successor(entity)
    targets = entities.forceable_states(entity, successor) if _is_allowed(request, entity, "override") else []
    visible = permissions.visible_types(request)
    return {
        "drawing": machine_drawing(
            flow,
            link=lambda state: f"{force_url}?to={state}" if state in targets else "",
            here=entity.state,
            taken=[(source, target) for source, target, _forced in steps],
            forced=[(source, target) for source, target, is_forced in steps if is_forced],
        ),
        "was_forced": any(forced for *_edge, forced in steps) or entities.was_forced_in_archive(entity, len(steps)),
        "is_unverified": entity.pk in find_unverified(flow.entity_type),
        "parents": entities.list_parents(entity),
        "details": list_details(entity),
        "is_final": flow.is_final(entity.state),
        "deadline": expected_duration(flow, entity.state),
        "overdue": deadlines.compute_overdue(entity, now()),
        "clock": deadlines.get_clock_start(entity),
        "liveness": read_liveness(entity, now()),
        "may_operate": _is_allowed(request, entity, "operate"),
        "may_force": bool(targets),
        "may_waive": flow.may_be_waived() and not successor and _is_allowed(request, entity, "waive"),
        "waivers": related.list_waivers(entity, visible),
        "successor": successor,
        "requests": [(each, waits_for(each)) for each in approvals.list_pending_of(entity)],
        "may_replay": isinstance(entity, Run) and {part.flow.entity_type for part in runs.PARTS} <= visible,
        "may_drain": isinstance(entity, Worker) and not entity.has_ended() and not entity.draining,
        "looks": {
            state: {"tone": look.tone.value, "word": look.word}
            for state, look in state_styles(flow.entity_type).items()
        },
        "here_machine": flow.entity_type,
        "name": machine_name(flow),
    }


def _is_allowed(request: HttpRequest, entity: Entity, action: str) -> bool:
    return permissions.is_allowed(request.user, entity.flow, action)


def list_details(entity: Entity) -> list[tuple[str, Any]]:
    """The machine's own columns with their names, without empty ones and links; long values are cut."""
    left_out = NOT_DETAILS | entity.detail_only
    columns = [column for column in entity._meta.concrete_fields if not column.is_relation]
    values = [(column.name, getattr(entity, column.attname)) for column in columns if column.name not in left_out]
    return [
        (_format_name(name), f"{value} s" if name.endswith(SECONDS) else _format_detail(value))
        for name, value in values
        if value not in (None, "", [], {}, False)
    ]


def _format_name(name: str) -> str:
    """`timeout` for `timeout_sec`, whose value has the unit."""
    return next((name.removesuffix(end) for end in SECONDS if name.endswith(end)), name).replace("_", " ")


def _format_detail(value: Any) -> Any:
    if value is True:
        return "yes"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        value = ", ".join(str(each) for each in value)
    elif isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return value[:MAX_DETAIL_LENGTH] + "…" if isinstance(value, str) and len(value) > MAX_DETAIL_LENGTH else value


@require_safe
def why(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    """Fragment: the chain to the root cause, the transitions open now, and what blocks the others."""
    entity = get_entity(request, collection, entity_id)
    explanation = explain_entity(entity, now(), permissions.get_actor(request), permissions.visible_types(request))
    closed = [each for each in explanation.transitions if not each.allowed]
    context = {
        "entity": entity,
        "flow": entity.flow,
        "explanation": explanation,
        "open_transitions": [each for each in explanation.transitions if each.allowed],
        "closed_transitions": [each for each in closed if Kind.OPERATOR in each.actors],
        "automatic_transitions": [each for each in closed if Kind.OPERATOR not in each.actors],
        "is_final": entity.flow.is_final(entity.state),
        "may_force": _is_allowed(request, entity, "override"),
        "retryable": _find_retryable(request, explanation),
    }
    return rendering.render(request, "dashboard/parts/why.html", context)


def _find_retryable(request: HttpRequest, explanation: Explanation) -> Entity | None:
    """The root cause, if it has ended and the user may retry it."""
    root = explanation.waiting_on[-1].entity if explanation.waiting_on else None
    if root is None or root == explanation.entity or not _is_allowed(request, root, "operate"):
        return None
    return root if may_retry(root, permissions.get_actor(request)) else None


@require_safe
def liveness(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    """Fragment: last contact, lease and progress; 204 if the entity expects no heartbeats now."""
    found = read_liveness(get_entity(request, collection, entity_id), now())
    if found is None:
        return HttpResponse(status=204)
    return rendering.render(request, "dashboard/parts/liveness.html", {"liveness": found})


@require_safe
def proof(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    """Fragment: verifies the entity's hash chain, and that its row, evidence and links agree with its last event."""
    entity = get_entity(request, collection, entity_id)
    entity_type = entity.flow.entity_type
    findings = integrity.check_entity(entity_type, entity.pk)
    events = Event.objects.filter(entity_type=entity_type, entity_id=entity.pk, sequence=entity.version)
    last: Event | Anchor | None = events.first()
    archived = list_anchors(entity_type, entity.pk).first()
    if last is None and archived is not None and archived.sequence == entity.version:
        last = archived
    context = {"entity": entity, "findings": findings, "last": last, "archived": archived, "at": now()}
    return rendering.render(request, "dashboard/parts/proof.html", context)
