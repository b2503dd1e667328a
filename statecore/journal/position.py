"""The global order of the journal: the positions that the sequencer assigns to committed events."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.ids import ID_LENGTH
from ..kernel.transition import Severity
from .event_names import EventKind
from .events import Event

# Each has a partial index: most events are less severe, and a filter must not scan them.
INDEXED_SEVERITIES = (Severity.WARNING, Severity.ERROR, Severity.CRITICAL)


class Position(models.Model):
    """The position of an event, with copies of the columns that lists filter by.

    After the last archived position there are no gaps.
    """

    append_only = is_archivable = True

    position = models.BigIntegerField(primary_key=True)
    # Without a constraint: an event is deleted only together with its position, and the check would double the cost.
    event = models.ForeignKey(Event, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    entity_type = models.CharField(max_length=32)
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    run_id = models.CharField(max_length=ID_LENGTH)
    severity = models.CharField(max_length=16)
    actor = models.CharField(max_length=NAME_LENGTH)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("event",), name="position_one_per_event"),)
        indexes = (
            models.Index(fields=("entity_type", "position"), name="position_by_machine"),
            models.Index(fields=("run_id", "position"), condition=~Q(run_id=""), name="position_by_run"),
            models.Index(fields=("position",), condition=Q(kind=EventKind.OVERRIDE), name="position_of_overrides"),
            models.Index(fields=("actor", "position"), name="position_by_actor"),
            *(
                models.Index(fields=("position",), condition=Q(severity=severity), name=f"position_of_{severity}s")
                for severity in map(str, INDEXED_SEVERITIES)
            ),
        )

    def __str__(self) -> str:
        return f"{self.position} {self.event_id}"


class Numbering(models.Model):
    """The single row of the sequencer: the last assigned position, and its mark.

    The mark, `seen`, identifies the events that already have a position; `commit_order` explains it.
    """

    head = models.BigIntegerField(default=0)
    seen = models.TextField(default="")
    # The database server that `seen` comes from; another one has its own transaction ids.
    cluster = models.CharField(max_length=32, default="")
    # Positions are comparable only within an epoch; `epochs` explains it.
    epoch = models.PositiveIntegerField(default=1, db_default=1)
    # The timeline of the PostgreSQL server, which every promotion of a replica increases; 0 if it is not known.
    timeline = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"numbered up to {self.head}"


def head() -> int:
    """Returns the last assigned position."""
    return Numbering.objects.values_list("head", flat=True).first() or 0


def current_epoch() -> int:
    return read_extent()[0]


def read_extent() -> tuple[int, int]:
    """Returns the current epoch and the last assigned position, both of the same moment."""
    return Numbering.objects.values_list("epoch", "head").first() or (1, 0)
