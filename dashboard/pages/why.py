"""Why an entity is where it is: the chain to the root cause, the moves open now, and the closed ones with why."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import rights, shell
from statecore.kernel.clock import now
from statecore.stuck.explain import explained

from .found import entity_at


@require_safe
def why(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id)
    told = explained(entity, now(), rights.actor_of(request), rights.sight(request))
    flow = entity.flow
    context = {
        "entity": entity,
        "flow": flow,
        "told": told,
        "open_moves": [move for move in told.moves if move.allowed],
        "closed_moves": [move for move in told.moves if not move.allowed],
        "is_final": flow.is_final(entity.state),
        "may_operate": rights.may(request.user, flow, "operate"),
        "may_force": rights.may(request.user, flow, "override"),
    }
    return shell.render(request, "dashboard/parts/why.html", context)
