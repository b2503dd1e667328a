"""The proof that an entity's history is untampered: its chain is verified here and now, in the database's own rows."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import shell
from statecore import integrity
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.records import Anchor
from statecore.records.retirement import anchors_of

from .found import entity_at


@require_safe
def proof(request: HttpRequest, collection: str, entity_id: str) -> HttpResponse:
    entity = entity_at(request, collection, entity_id)
    finding = integrity.verify_chain([(entity.flow.entity_type, entity.pk)])
    last: Event | Anchor | None = Event.objects.filter(
        entity_type=entity.flow.entity_type, entity_id=entity.pk, sequence=entity.version
    ).first()
    retired = anchors_of(entity.flow.entity_type, entity.pk).first()
    if last is None and retired is not None and retired.sequence == entity.version:
        last = retired
    agrees = last is not None and (last.hash, last.to_state) == (entity.chain_head, entity.state)
    context = {"entity": entity, "finding": finding, "agrees": agrees, "last": last, "retired": retired, "at": now()}
    return shell.render(request, "dashboard/parts/proof.html", context)
