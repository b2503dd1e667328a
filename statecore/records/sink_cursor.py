"""How far each sink has come: everything up to this position was delivered to it."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models


class SinkCursor(models.Model):
    sink = models.CharField(primary_key=True, max_length=32)
    position = models.BigIntegerField(default=0)
    # One more with each repair of what the sink keeps, so that two repairs at once are not both made.
    revision = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.sink} at {self.position}"


def place_of(sink: str) -> int:
    return SinkCursor.objects.get_or_create(sink=sink)[0].position


def move(sinks: Sequence[str], position: int) -> None:
    SinkCursor.objects.filter(sink__in=sinks).update(position=position)
