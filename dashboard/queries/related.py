"""The entities that an entity is linked with; each relation is bounded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.http import urlencode

from statecore.kernel.entity import Entity
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream

MAX_SHOWN = 25


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    entities: list[Any]
    total: int
    url: str = ""  # the machine page with a search for all of them, where one exists


def list_relations(entity: Entity, visible: Collection[str]) -> list[Relation]:
    """Parents first, then links from this entity, then links to it; without empty ones and hidden machines."""
    fields = sorted(entity._meta.get_fields(), key=lambda field: (not field.concrete, field.many_to_many or False))
    found = [_relation(entity, field) for field in fields if _is_visible_machine(field, visible)]
    return [relation for relation in found if relation.entities]


def list_waivers(entity: Entity, visible: Collection[str]) -> list[TestGate]:
    """The gate itself if it was waived, or the waived gates of a task or workstream."""
    if isinstance(entity, TestGate):
        return [entity] if entity.waiver else []
    if TestGate.flow.entity_type not in visible:
        return []
    waived = TestGate.objects.filter(waiver__isnull=False).order_by("pk")
    if isinstance(entity, Workstream):
        return list(waived.filter(workstream=entity)[:MAX_SHOWN])
    if isinstance(entity, Task):
        return list(waived.filter(Q(exit_of=entity) | Q(entry_of=entity)).distinct()[:MAX_SHOWN])
    return []


def _is_visible_machine(field: Any, visible: Collection[str]) -> bool:
    related = field.related_model
    is_machine = field.is_relation and isinstance(related, type) and issubclass(related, Entity)
    return is_machine and related.flow.entity_type in visible


def _relation(entity: Entity, field: Any) -> Relation:
    name = field.name if field.concrete else field.get_accessor_name()
    if field.one_to_one or field.many_to_one:
        one = getattr(entity, name, None)
        return Relation(_title(name), [one] if one else [], 1 if one else 0)
    rows = getattr(entity, name).order_by("-pk")
    shown = list(rows[: MAX_SHOWN + 1])
    if len(shown) <= MAX_SHOWN:
        return Relation(_title(name), shown, len(shown))
    return Relation(_title(name), shown[:MAX_SHOWN], rows.count(), _search_url(entity, field))


def _search_url(entity: Entity, field: Any) -> str:
    if not field.one_to_many:
        return ""
    address = reverse("console:machine", args=[field.related_model.flow.collection])
    return f"{address}?{urlencode({'q': f'{field.field.name}:{entity.pk}'})}"


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()
