"""What an entity is linked with, each relation bounded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from statecore.kernel.entity import Entity

MOST = 25


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    entities: list[Any]
    has_more: bool


def relations(entity: Entity, sight: Collection[str]) -> list[Relation]:
    """Upwards first, then what it points to, then what points to it; empty ones are left out, and who is not seen."""
    fields = sorted(entity._meta.get_fields(), key=lambda field: (not field.concrete, field.many_to_many or False))
    found = [_relation(entity, field) for field in fields if _leads_to_a_machine(field, sight)]
    return [relation for relation in found if relation.entities]


def _leads_to_a_machine(field: Any, sight: Collection[str]) -> bool:
    related = field.related_model
    is_machine = field.is_relation and isinstance(related, type) and issubclass(related, Entity)
    return is_machine and related.flow.entity_type in sight


def _relation(entity: Entity, field: Any) -> Relation:
    name = field.name if field.concrete else field.get_accessor_name()
    if field.one_to_one or field.many_to_one:
        one = getattr(entity, name, None)
        return Relation(_spoken(name), [one] if one else [], has_more=False)
    rows = list(getattr(entity, name).order_by("-pk")[: MOST + 1])
    return Relation(_spoken(name), rows[:MOST], len(rows) > MOST)


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()
