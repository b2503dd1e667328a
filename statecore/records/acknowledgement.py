"""Acknowledgements of stuck entities by earlier releases."""

from __future__ import annotations

from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.ids import ID_LENGTH


class Acknowledgement(models.Model):
    """Unused: incidents are acknowledged. The previous release may still write it during an upgrade; to be dropped."""

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
