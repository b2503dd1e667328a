"""Forcing a state: the form, a dry run that shows what would follow, and the override.

The preview makes the override in a transaction and rolls it back. If a policy protects a state that it would reach,
the form makes a request, which another person decides on the page of approvals.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from statecore import transitions
from statecore.dashboard import permissions, rendering
from statecore.dashboard.navigation import machine_name
from statecore.dashboard.queries import entities
from statecore.kernel.entity import Entity
from statecore.kernel.refusals import Refusal
from statecore.transitions.override import protecting_policies

from . import forms
from .lookup import get_entity

TEMPLATE, PREVIEW = "dashboard/force.html", "dashboard/parts/preview.html"
HOLDER_FIELDS = ("worker_id", "worker_name", "probe_by", "holder")


@require_http_methods(["GET", "HEAD", "POST"])
def force(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = get_entity(request, collection, entity_id, "override")
    to_state = request.POST.get("to", request.GET.get("to", ""))
    if request.method != "POST":
        context = {**_context(request, entity, to_state), **_preview(request, entity, to_state)}
        return rendering.render(request, PREVIEW if rendering.is_fragment(request) else TEMPLATE, context)
    outcome = forms.call(lambda: _override(request, entity, to_state))
    if not isinstance(outcome, Refusal):
        return forms.redirect_after_force(outcome)
    latest = get_entity(request, collection, entity_id, "override")
    context = {**_context(request, latest, to_state), **_preview(request, latest, to_state)}
    return forms.render_refusal(request, TEMPLATE, context, outcome)


def _override(request: HttpRequest, entity: Entity, to_state: str) -> transitions.Outcome:
    return transitions.override(
        type(entity),
        entity.pk,
        to_state,
        actor=permissions.get_actor(request),
        reason=request.POST.get("reason", ""),
        category=request.POST.get("category", ""),
        expected_version=forms.read_expected_version(request),
        request=forms.read_request_key(request),
    )


def _preview(request: HttpRequest, entity: Entity, to_state: str) -> dict[str, Any]:
    """What the override would cause, or why it would be refused."""
    if not to_state:
        return {}
    try:
        outcome = transitions.override(
            type(entity),
            entity.pk,
            to_state,
            actor=permissions.get_actor(request),
            reason=forms.DRY_RUN_REASON,
            category=transitions.Category.OTHER,
            dry_run=True,
        )
    except Refusal as refusal:
        return {"impossible": refusal}
    return forms.preview_context(request, outcome, protecting_policies(outcome))


def _context(request: HttpRequest, entity: Entity, to_state: str) -> dict[str, Any]:
    flow, successor = entity.flow, entities.find_successor(entity)
    return {
        "entity": entity,
        "flow": flow,
        "to_state": to_state if to_state in flow.states else "",
        "states": entities.forceable_states(entity, successor),
        "successor": successor,
        "holder": _find_holder(entity),
        "approval_hours": settings.STATECORE_APPROVAL_HOURS,
        "reason": request.POST.get("reason", ""),
        "category": request.POST.get("category", ""),
        "categories": transitions.Category.choices,
        "key": forms.make_key(),
        "here_machine": flow.entity_type,
        "name": machine_name(flow),
    }


def _find_holder(entity: Entity) -> str:
    """The worker that holds the entity; an override fences it off."""
    return next((str(holder) for name in HOLDER_FIELDS if (holder := getattr(entity, name, None))), "")
