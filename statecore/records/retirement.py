"""What was taken out of the journal: a range of positions whose events lie in a file, and where each chain goes on.

Always the oldest events there are, so what is left is dense from one position on, the horizon. For each entity that
had events in the range an anchor keeps the last of them without its bytes; the chain in the database, if it goes on,
follows that one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import models

from ..journal import EVENT_ID_LENGTH, EventKind
from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import rfc3339, told
from ..kernel.refusals import Retired
from ..kernel.state_field import STATE_LENGTH
from ..kernel.ulid import ID_LENGTH

PERMISSION = "statecore.retire_events"


class Retirement(models.Model):
    append_only = True

    last_position = models.BigIntegerField(primary_key=True)
    first_position = models.BigIntegerField(unique=True)
    file = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    # Of the last seal in the range: no range ends in the middle of one.
    seal = models.CharField(max_length=64)
    # The time of the newest event in it.
    until = models.DateTimeField()
    # A digest of the anchors, and what the events added to the counters.
    anchors = models.CharField(max_length=64)
    moves = models.JSONField()
    forced = models.JSONField()
    operator = models.CharField(max_length=NAME_LENGTH)
    reason = models.TextField()
    retired_at = models.DateTimeField()
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        default_permissions = ("view",)
        permissions = (("retire_events", "Can take old events out of the journal"),)

    def __str__(self) -> str:
        return f"positions {self.first_position} to {self.last_position}, retired to {self.file}"

    def digest(self) -> str:
        """Over everything it says, the hash of the one before it included."""
        said = [getattr(self, field.attname) for field in self._meta.concrete_fields if field.name != "hash"]
        plain = [rfc3339(value) if isinstance(value, datetime) else value for value in said]
        return hashlib.sha256(orjson.dumps(plain)).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        return {
            "first_position": self.first_position,
            "last_position": self.last_position,
            "file": self.file,
            "sha256": self.sha256,
            "until": rfc3339(self.until),
            "retired_at": rfc3339(self.retired_at),
            "operator": self.operator,
            "reason": self.reason,
        }


class Anchor(models.Model):
    """The last event of an entity in a retired range; its newest anchor is the one its chain goes on from."""

    append_only = True

    retirement = models.ForeignKey(Retirement, models.PROTECT, related_name="+")
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    sequence = models.PositiveIntegerField()
    position = models.BigIntegerField()
    event_id = models.CharField(max_length=EVENT_ID_LENGTH)
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    trigger = models.CharField(max_length=64)
    to_state = models.CharField(max_length=STATE_LENGTH)
    actor = models.CharField(max_length=NAME_LENGTH)
    actor_kind = models.CharField(max_length=16)
    channel = models.CharField(max_length=16)
    at = models.DateTimeField()
    hash = models.CharField(max_length=64)
    # Whether one of the retired events, up to this one, was an override.
    was_forced = models.BooleanField()

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("entity_type", "entity_id", "sequence"), name="anchor_is_one_event"),
        )
        indexes = (models.Index(fields=("entity_type", "position"), name="anchor_by_machine"),)

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id} up to number {self.sequence}"


class Anchored(NamedTuple):
    """An anchor before it is a row, in the order in which the digest is taken: as these sort."""

    entity_type: str
    entity_id: str
    sequence: int
    position: int
    event_id: str
    kind: str
    trigger: str
    to_state: str
    actor: str
    actor_kind: str
    channel: str
    at: datetime
    hash: str
    was_forced: bool


def digest_of(anchors: Iterable[Anchored]) -> str:
    """Sorted here and not by the database, whose collation is its own."""
    digest = hashlib.sha256()
    for anchor in sorted(anchors):
        digest.update(orjson.dumps([*anchor[:-3], rfc3339(anchor.at), *anchor[-2:]], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def horizon() -> int:
    """The last position whose event is no longer here; 0 where nothing was retired."""
    return Retirement.objects.order_by("-last_position").values_list("last_position", flat=True).first() or 0


def latest() -> Retirement | None:
    return Retirement.objects.order_by("-last_position").first()


def refusal_of(record: Retirement, what: str) -> Retired:
    """For who asks for something that can only be told from what was retired."""
    detail = f"{what} was retired on {told(record.retired_at)}, to {record.file}"
    return Retired(detail, retired_upto=record.last_position, file=record.file, until=rfc3339(record.until))


def anchors_of(entity_type: str, entity_id: str) -> models.QuerySet[Anchor]:
    """Newest first, each with its record: where what is here goes on from."""
    found = Anchor.objects.filter(entity_type=entity_type, entity_id=entity_id)
    return found.select_related("retirement").order_by("-sequence")


def tallied(what: str) -> Counter[tuple[Any, ...]]:
    """What all the retired events add up to: their `moves`, or by whom things were `forced`."""
    found: Counter[tuple[Any, ...]] = Counter()
    for listed in Retirement.objects.values_list(what, flat=True):
        for *key, count in listed:
            found[tuple(key)] += count
    return found
