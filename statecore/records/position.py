"""The global order of the journal: each committed event's position, given once by the sequencer, and how far it is."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..journal import Event, EventKind
from ..kernel.actors import NAME_LENGTH
from ..kernel.moves import Severity
from ..kernel.ulid import ID_LENGTH

# Most events are neither; whoever looks for these must not walk past the others.
LOUD = (Severity.WARNING, Severity.ERROR, Severity.CRITICAL)


class Position(models.Model):
    """Position n is the n-th event; dense, from the horizon of what was retired. Beside it what pages filter by."""

    append_only = retires = True

    position = models.BigIntegerField(primary_key=True)
    # No foreign key: an event goes only together with its position, and the check would cost as much as the row.
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
                for severity in map(str, LOUD)
            ),
        )

    def __str__(self) -> str:
        return f"{self.position} {self.event_id}"


class Numbering(models.Model):
    """The one row of the sequencer: the last position it gave and what it had seen by then (`commit_order`)."""

    head = models.BigIntegerField(default=0)
    seen = models.TextField(default="")
    # Which database server the marks in `seen` come from; another one counts its transactions anew.
    cluster = models.CharField(max_length=32, default="")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"numbered up to {self.head}"


def head() -> int:
    """The last position there is."""
    return Numbering.objects.values_list("head", flat=True).first() or 0
