"""A plain move: the trigger's own fields, a reason, and the version that was seen."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from dashboard import rights, shell
from statecore import door
from statecore.kernel.actors import Kind
from statecore.kernel.entity import Entity
from statecore.kernel.moves import Move

from . import asking
from .found import entity_at

TEMPLATE = "dashboard/move.html"


@require_http_methods(["GET", "HEAD", "POST"])
def move(request: HttpRequest, collection: str, entity_id: str, trigger: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id, "operate")
    moves = [each for each in entity.flow.moves if each.trigger == trigger and Kind.OPERATOR in each.actors]
    if not moves:
        raise Http404(f"an operator has no trigger {trigger} on {entity.flow.entity_type}")
    if request.method != "POST":
        return shell.render(request, TEMPLATE, _context(request, entity, moves))
    outcome, refusal = asking.attempt(lambda: _fire(request, entity, moves[0]))
    if outcome is not None and outcome.changed:
        return asking.answered(outcome)
    if refusal is None:
        return shell.render(request, TEMPLATE, {**_context(request, entity, moves), "unchanged": True})
    latest = entity_at(request, collection, entity_id, "operate")
    return asking.refused(request, TEMPLATE, _context(request, latest, moves), refusal)


def _fire(request: HttpRequest, entity: Entity, made: Move) -> door.Outcome:
    return door.transition(
        type(entity),
        entity.pk,
        made.trigger,
        actor=rights.actor_of(request),
        params=asking.read_fields(made.params, request.POST),
        reason=request.POST.get("reason", ""),
        expected_version=asking.expected_version(request),
        request=asking.request_key(request),
    )


def _context(request: HttpRequest, entity: Entity, moves: list[Move]) -> dict[str, Any]:
    fields = [(param, request.POST.get(f"field_{param.name}", "")) for param in moves[0].params]
    return {
        "entity": entity,
        "flow": entity.flow,
        "trigger": moves[0].trigger,
        "targets": list(dict.fromkeys(each.target for each in moves)),
        "guards": list(dict.fromkeys(guard.__name__ for each in moves for guard in each.guards)),
        "fields": fields,
        "reason": request.POST.get("reason", ""),
        "key": asking.new_key(),
        "here_machine": entity.flow.entity_type,
        "name": shell.name_of(entity.flow),
    }
