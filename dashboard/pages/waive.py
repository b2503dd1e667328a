"""Waiving a gate: the form, a dry run that shows what would follow, and the waiver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from statecore import transitions
from statecore.dashboard import permissions, rendering
from statecore.dashboard.navigation import machine_name
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.kernel.refusals import Invalid, Refusal
from statecore.transitions.override import protecting_policies

from . import forms
from .lookup import get_entity

TEMPLATE = "dashboard/waive.html"
MAX_HOURS = 87_600


@require_http_methods(["GET", "HEAD", "POST"])
def waive(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = get_entity(request, collection, entity_id, "waive")
    if not entity.flow.may_be_waived():
        raise Http404
    if request.method != "POST":
        return rendering.render(request, TEMPLATE, _context(request, entity))
    outcome = forms.call(lambda: _waive(request, entity))
    if not isinstance(outcome, Refusal):
        return forms.redirect_after_force(outcome)
    latest = get_entity(request, collection, entity_id, "waive")
    return forms.render_refusal(request, TEMPLATE, _context(request, latest), outcome)


def _waive(request: HttpRequest, entity: Entity) -> transitions.Outcome:
    hours = _read_hours(request)
    return transitions.waive(
        type(entity),
        entity.pk,
        actor=permissions.get_actor(request),
        reason=request.POST.get("reason", ""),
        category=request.POST.get("category", ""),
        expires_at=None if hours is None else now() + timedelta(hours=hours),
        expected_version=forms.read_expected_version(request),
        request=forms.read_request_key(request),
    )


def _read_hours(request: HttpRequest) -> float | None:
    given = request.POST.get("hours", "")
    try:
        hours = float(given) if given else None
    except ValueError:
        hours = -1.0
    if hours is not None and not 0 < hours <= MAX_HOURS:
        raise Invalid({"hours": [f"must be a number up to {MAX_HOURS}."]})
    return hours


def _context(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {
        "entity": entity,
        "flow": entity.flow,
        "approval_hours": settings.STATECORE_APPROVAL_HOURS,
        "reason": request.POST.get("reason", ""),
        "category": request.POST.get("category", ""),
        "hours": request.POST.get("hours", ""),
        "categories": transitions.Category.choices,
        "key": forms.make_key(),
        "here_machine": entity.flow.entity_type,
        "name": machine_name(entity.flow),
        **_preview(request, entity),
    }


def _preview(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    """What the waiver would cause, or why it would be refused."""
    try:
        outcome = transitions.waive(
            type(entity),
            entity.pk,
            actor=permissions.get_actor(request),
            reason=forms.DRY_RUN_REASON,
            category=transitions.Category.OTHER,
            dry_run=True,
        )
    except Refusal as refusal:
        return {"impossible": refusal}
    return forms.preview_context(request, outcome, protecting_policies(outcome))
