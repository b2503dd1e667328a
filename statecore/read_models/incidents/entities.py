"""The entities that hang on an incident, page by page, longest overdue first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from ...kernel import registry
from ...kernel.entity import Entity
from ...records import Incident, IncidentEntity
from .. import stuck
from ..stuck.visibility import VisibleMachines


class EntityPage(NamedTuple):
    items: list[stuck.Item]
    next_after: int | None  # the id of the last row; None on the last page


def read_entities(
    incident: Incident, at: datetime, *, after: int | None = None, limit: int, visible: VisibleMachines = None
) -> EntityPage:
    rows = IncidentEntity.objects.filter(incident=incident).order_by("due_at", "pk")
    if visible is not None:
        rows = rows.filter(entity_type__in=sorted(visible))
    if after is not None and (last := IncidentEntity.objects.filter(pk=after).first()) is not None:
        rows = rows.filter(Q(due_at__gt=last.due_at) | Q(due_at=last.due_at, pk__gt=last.pk))
    found = list(rows[: limit + 1])
    shown = found[:limit]
    entities = load_entities((row.entity_type, row.entity_id) for row in shown)
    stuck_entities = [_make(row, entities[key]) for row in shown if (key := _key(row)) in entities]
    items = stuck.make_items(stuck_entities, at, visible)
    return EntityPage(items, shown[-1].pk if len(found) > limit else None)


def load_entities(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """Returns the entities that exist, one query for each machine."""
    ids: dict[str, list[str]] = {}
    for entity_type, entity_id in keys:
        ids.setdefault(entity_type, []).append(entity_id)
    known = {flow.entity_type: flow.model for flow in registry.flows()}
    return {
        (entity_type, pk): entity
        for entity_type, wanted in ids.items()
        if entity_type in known
        for pk, entity in known[entity_type].objects.in_bulk(wanted).items()
    }


def _make(row: IncidentEntity, entity: Entity) -> stuck.StuckEntity:
    cursor = stuck.ListCursor(row.due_at, "", row.entity_id)
    return stuck.StuckEntity(entity, row.since, cursor, stuck.Kind(row.kind))


def _key(row: IncidentEntity) -> tuple[str, str]:
    return row.entity_type, row.entity_id
