"""How far each sink has come: everything up to this position was delivered to it."""

from __future__ import annotations

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
    return SinkCursor.objects.filter(sink=sink).values_list("position", flat=True).first() or 0


def move(sink: str, position: int) -> None:
    if not SinkCursor.objects.filter(sink=sink).update(position=position):
        SinkCursor.objects.create(sink=sink, position=position)
