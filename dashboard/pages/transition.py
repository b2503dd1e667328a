"""Firing a trigger on one entity, and retrying a final one."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from statecore import transitions
from statecore.bulk import Name, Request, count_caused, resolve
from statecore.bulk.results import describe_caused
from statecore.dashboard import labels, permissions, rendering
from statecore.dashboard.navigation import machine_name
from statecore.kernel.actors import Kind
from statecore.kernel.entity import Entity
from statecore.kernel.refusals import Refusal
from statecore.kernel.transition import Transition

from . import forms
from .lookup import get_entity

TRANSITION, RETRY = "dashboard/transition.html", "dashboard/retry.html"
PREVIEW = "dashboard/parts/transition_preview.html"


@require_http_methods(["GET", "HEAD", "POST"])
def transition(request: HttpRequest, collection: str, entity_id: str, trigger: str) -> HttpResponse:
    entity = get_entity(request, collection, entity_id, "operate")
    declared = [each for each in entity.flow.transitions if each.trigger == trigger and Kind.OPERATOR in each.actors]
    if not declared:
        noun = labels.noun(entity.flow.entity_type)
        raise Http404(f"Operators cannot fire the trigger {trigger} on a {noun}.")
    if request.method != "POST":
        context = _context(request, entity, declared)
        if rendering.is_fragment(request):
            return rendering.render(
                request, PREVIEW, {**context, **_preview(request, entity, Request(trigger=trigger))}
            )
        return rendering.render(request, TRANSITION, context)
    outcome = forms.call(lambda: _fire(request, entity, declared[0]))
    if not isinstance(outcome, Refusal):
        if outcome.changed:
            return forms.redirect_to_receipt(outcome)
        return rendering.render(request, TRANSITION, {**_context(request, entity, declared), "unchanged": True})
    latest = get_entity(request, collection, entity_id, "operate")
    context = _context(request, latest, declared)
    context["refusal_text"] = labels.refusal_text(outcome.as_dict(), latest.flow, trigger)
    return forms.render_refusal(request, TRANSITION, context, outcome)


def _fire(request: HttpRequest, entity: Entity, declared: Transition) -> transitions.Outcome:
    return transitions.transition(
        type(entity),
        entity.pk,
        declared.trigger,
        actor=permissions.get_actor(request),
        params=forms.read_fields(declared.params, request.POST),
        reason=request.POST.get("reason", ""),
        expected_version=forms.read_expected_version(request),
        request=forms.read_request_key(request),
    )


def _preview(request: HttpRequest, entity: Entity, wanted: Request) -> dict[str, Any]:
    """What an action would cause, counted, or why it would be refused; loaded after the page.

    The cascade of a large run takes seconds.
    """
    action = forms.fill_in(resolve(entity.flow, wanted))
    (result,) = action.apply([entity.pk], actor=permissions.get_actor(request), dry_run=True)
    if result.refusal is not None:
        return {"refusal_text": labels.refusal_text(result.refusal.as_dict(), entity.flow, wanted.trigger)}
    visible = permissions.visible_types(request)
    counts = describe_caused(count_caused([result]))
    caused = [each for each in counts if each["entity_type"] in visible]
    return {"caused": caused, "has_unseen": len(caused) < len(counts), "will_change": result.changed}


def _context(request: HttpRequest, entity: Entity, declared: list[Transition]) -> dict[str, Any]:
    return {
        **_entity_context(request, entity),
        "label": labels.action_label(entity.flow, declared[0].trigger, entity.state),
        "targets": list(dict.fromkeys(each.target for each in declared)),
        "guards": list(dict.fromkeys(guard.__name__ for each in declared for guard in each.guards)),
        "fields": [(param, request.POST.get(f"field_{param.name}", "")) for param in declared[0].params],
    }


def _entity_context(request: HttpRequest, entity: Entity) -> dict[str, Any]:
    return {
        "entity": entity,
        "flow": entity.flow,
        "reason": request.POST.get("reason", ""),
        "key": forms.make_key(),
        "here_machine": entity.flow.entity_type,
        "name": machine_name(entity.flow),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def retry(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    """Creates a successor of a final entity."""
    entity = get_entity(request, collection, entity_id, "operate")
    context = _entity_context(request, entity)
    if request.method != "POST":
        if rendering.is_fragment(request):
            preview = _preview(request, entity, Request(action=Name.RETRY))
            return rendering.render(request, PREVIEW, {**context, **preview})
        return rendering.render(request, RETRY, context)
    outcome = forms.call(
        lambda: transitions.retry(
            type(entity),
            entity.pk,
            actor=permissions.get_actor(request),
            reason=request.POST.get("reason", ""),
            request=forms.read_request_key(request),
        )
    )
    if not isinstance(outcome, Refusal):
        return forms.redirect_to_receipt(outcome)
    return forms.render_refusal(request, RETRY, context, outcome)
