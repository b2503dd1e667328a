"""The last position delivered to each sink."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, models

from ..storage.sql_params import in_clause, in_param


class SinkCursor(models.Model):
    sink = models.CharField(primary_key=True, max_length=32)
    position = models.BigIntegerField(default=0)
    # Incremented by each repair of the sink's data, so that of two concurrent repairs one fails.
    revision = models.PositiveIntegerField(default=0)
    # The last position of which the sink has written the results, if it writes less often than it reads.
    written = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.sink} at {self.position}"


def get_position(sink: str) -> int:
    """Return the position; creates a cursor at 0 for a new sink."""
    return SinkCursor.objects.get_or_create(sink=sink)[0].position


def set_position(sinks: Sequence[str], position: int) -> None:
    """In SQL, because the sequencer does this in each round, and the ORM takes several times as long."""
    condition = f"sink {in_clause(connection.vendor, len(sinks))}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {SinkCursor._meta.db_table} SET position = %s WHERE {condition}",  # noqa: S608
            [position, in_param(list(sinks), connection.vendor)],
        )


def get_written(sink: str) -> int:
    return SinkCursor.objects.values_list("written", flat=True).get(sink=sink)


def advance_written(sink: str, before: int, position: int) -> bool:
    """Return False, and change nothing, if another process has written since `before` was read."""
    return bool(SinkCursor.objects.filter(sink=sink, written=before).update(written=position))
