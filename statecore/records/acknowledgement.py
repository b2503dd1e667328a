"""Acknowledgements of stuck entities, valid while the entity stays in its state."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.ids import ID_LENGTH

Key = tuple[str, str]


class Acknowledgement(models.Model):
    """An operator's acknowledgement of one stay in a state; the next transition makes it obsolete."""

    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    state_entered_at = models.DateTimeField()
    actor = models.CharField(max_length=NAME_LENGTH)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(
                fields=("entity_type", "entity_id", "state_entered_at"), name="acknowledged_by_the_first"
            ),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id}: acknowledged by {self.actor}"


def acknowledge(entity: Entity, name: str) -> bool:
    """Acknowledge the entity's current stay; return False if it is already acknowledged."""
    stay = {"entity_type": entity.flow.entity_type, "entity_id": entity.pk, "state_entered_at": entity.state_entered_at}
    _row, is_first = Acknowledgement.objects.get_or_create(**stay, defaults={"actor": name, "at": now()})
    return is_first


def acknowledged(entities: Iterable[Entity]) -> dict[Key, Acknowledgement]:
    """Return the current acknowledgements of these entities, by machine and id."""
    since = {(entity.flow.entity_type, entity.pk): entity.state_entered_at for entity in entities}
    found = Acknowledgement.objects.filter(
        entity_type__in={kind for kind, _pk in since}, entity_id__in=[pk for _kind, pk in since]
    )
    keys = {(each.entity_type, each.entity_id): each for each in found.order_by("pk")}
    return {key: each for key, each in keys.items() if since.get(key) == each.state_entered_at}
