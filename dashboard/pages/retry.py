"""Retrying what has ended: a successor starts afresh in its place."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from dashboard import rights, shell
from statecore import door

from . import asking
from .found import entity_at

TEMPLATE = "dashboard/retry.html"


@require_http_methods(["GET", "HEAD", "POST"])
def retry(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id, "operate")
    words = {
        "entity": entity,
        "flow": entity.flow,
        "reason": request.POST.get("reason", ""),
        "key": asking.new_key(),
        "here_machine": entity.flow.entity_type,
        "name": shell.name_of(entity.flow),
    }
    if request.method != "POST":
        return shell.render(request, TEMPLATE, words)
    outcome, refusal = asking.attempt(
        lambda: door.retry(
            type(entity),
            entity.pk,
            actor=rights.actor_of(request),
            reason=request.POST.get("reason", ""),
            request=asking.request_key(request),
        )
    )
    if outcome is not None:
        return asking.answered(outcome)
    assert refusal is not None  # noqa: S101 - one of the two
    return asking.refused(request, TEMPLATE, words, refusal)
