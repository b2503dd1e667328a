"""Forcing a state, from the first look to the receipt.

What would happen is shown by doing it in a transaction that is rolled back. Where the policy demands a second person,
that person confirms on the spot with their own name and password: no approval waits around to be found later.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from dashboard import rights, second_factor, shell
from dashboard.queries import entities
from statecore import door
from statecore.kernel.actors import NAME_LENGTH, Actor, Channel
from statecore.kernel.entity import Entity
from statecore.kernel.plain import text_complaint
from statecore.kernel.refusals import PermissionDenied, Refusal

from . import asking
from .found import entity_at

TEMPLATE, PREVIEW = "dashboard/force.html", "dashboard/parts/preview.html"
LOOKING = "Only a preview: nothing of this is kept."


@require_http_methods(["GET", "HEAD", "POST"])
def force(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id, "override")
    to_state = request.POST.get("to", request.GET.get("to", ""))
    if request.method != "POST":
        context = {**_context(request, entity, to_state), **_preview(request, entity, to_state)}
        return shell.render(request, PREVIEW if shell.is_fragment(request) else TEMPLATE, context)
    outcome, refusal = asking.attempt(lambda: _override(request, entity, to_state))
    if outcome is not None:
        return asking.answered(outcome)
    assert refusal is not None  # noqa: S101 - one of the two
    latest = entity_at(request, collection, entity_id, "override")
    context = {**_context(request, latest, to_state), **_preview(request, latest, to_state)}
    return asking.refused(request, TEMPLATE, context, refusal)


def _override(request: HttpRequest, entity: Entity, to_state: str) -> door.Outcome:
    return door.override(
        type(entity),
        entity.pk,
        to_state,
        actor=rights.actor_of(request),
        reason=request.POST.get("reason", ""),
        category=request.POST.get("category", ""),
        approver=_approver(request),
        expected_version=asking.expected_version(request),
        request=asking.request_key(request),
    )


def _approver(request: HttpRequest) -> Actor | Refusal | None:
    """Who confirms this too; a refusal goes to the door, which keeps it on record."""
    name, password = request.POST.get("approver", "").strip(), request.POST.get("approver_password", "")
    if not name:
        return None
    if text_complaint(name, NAME_LENGTH):
        return _not_them("this is nobody's name")
    user: Any = authenticate(request, username=name, password=password)
    if user is None:
        return _not_them(f"{name} and this password do not belong together")
    return _by_code(request, user) or Actor.operator(user, Channel.CONSOLE)


def _by_code(request: HttpRequest, user: Any) -> Refusal | None:
    """Where a password alone lets this person in no further, it approves nothing either."""
    if not second_factor.is_due(user):
        return None
    if second_factor.device_of(user) is None:
        return _not_them(f"{user.get_username()} has no second factor yet, and one is required here")
    if not second_factor.passes(request, user, request.POST.get("approver_code", "")):
        return _not_them(f"{user.get_username()} has a second factor, and this is not its code")
    return None


def _not_them(sentence: str) -> PermissionDenied:
    return PermissionDenied(sentence, required="second_person")


def _preview(request: HttpRequest, entity: Entity, to_state: str) -> dict[str, Any]:
    """What would follow, or why it would be refused."""
    if not to_state:
        return {}
    try:
        outcome = door.override(
            type(entity),
            entity.pk,
            to_state,
            actor=rights.actor_of(request),
            reason=LOOKING,
            category=door.Category.OTHER,
            dry_run=True,
        )
    except Refusal as refusal:
        return {"impossible": refusal}
    told, sight = outcome.as_dict(), rights.sight(request)
    caused = [event for event in told["caused"] if event["entity_type"] in sight]
    return {"preview": told["event"], "caused": caused, "has_unseen": len(caused) < len(told["caused"])}


def _context(request: HttpRequest, entity: Entity, to_state: str) -> dict[str, Any]:
    flow, heir = entity.flow, entities.successor(entity)
    return {
        "entity": entity,
        "flow": flow,
        "to_state": to_state if to_state in flow.states else "",
        "states": entities.forceable(entity, heir),
        "successor": heir,
        "holder": _holder(entity),
        "takes_two": door.takes_two(entity, to_state),
        "reason": request.POST.get("reason", ""),
        "category": request.POST.get("category", ""),
        "categories": door.Category.choices,
        "approver": request.POST.get("approver", ""),
        "key": asking.new_key(),
        "here_machine": flow.entity_type,
        "name": shell.name_of(flow),
    }


def _holder(entity: Entity) -> str:
    """Who works on it now: forcing takes it out of their hands."""
    for name in ("worker_id", "worker_name", "probe_by"):
        if held_by := getattr(entity, name, None):
            return str(held_by)
    return ""
