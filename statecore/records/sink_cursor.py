"""The last position delivered to each sink."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models


class SinkCursor(models.Model):
    sink = models.CharField(primary_key=True, max_length=32)
    position = models.BigIntegerField(default=0)
    # Incremented by each repair of the sink's data, so that of two concurrent repairs one fails.
    revision = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.sink} at {self.position}"


def get_position(sink: str) -> int:
    """Return the position; creates a cursor at 0 for a new sink."""
    return SinkCursor.objects.get_or_create(sink=sink)[0].position


def set_position(sinks: Sequence[str], position: int) -> None:
    SinkCursor.objects.filter(sink__in=sinks).update(position=position)
