"""The archived part of the journal: ranges of positions with events in a file.

Retention always archives the oldest events, so the positions after the last archived one have no gaps. For each entity
with events in the range, an anchor keeps the last of them without its canonical bytes; the entity's chain in the
database continues from its newest anchor.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import format_utc, rfc3339
from ..kernel.fields import STATE_LENGTH
from ..kernel.ids import ID_LENGTH
from ..kernel.refusals import Archived
from .event_names import EventKind
from .events import EVENT_ID_LENGTH

PERMISSION = "statecore.archive_events"


class ArchivedRange(models.Model):
    """A range of positions that is in a file and no longer in the database."""

    append_only = True

    last_position = models.BigIntegerField(primary_key=True)
    first_position = models.BigIntegerField(unique=True)
    file = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    # The root of the tree up to the last position, in base64; in records older than the tree, a hash of 64 digits.
    root = models.CharField(max_length=64, db_column="seal")
    # The time of its newest event.
    until = models.DateTimeField()
    # A digest of its anchors, and the counts of its transitions and overrides.
    anchors = models.CharField(max_length=64)
    transitions = models.JSONField(db_column="moves")
    forced = models.JSONField()
    operator = models.CharField(max_length=NAME_LENGTH)
    reason = models.TextField()
    archived_at = models.DateTimeField(db_column="retired_at")
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        # Table and columns keep their former names, which the previous version still uses during an upgrade.
        db_table = "statecore_retirement"
        default_permissions = ("view",)
        permissions = (("archive_events", "Can take old events out of the journal"),)

    def __str__(self) -> str:
        return f"positions {self.first_position} to {self.last_position}, archived in {self.file}"

    def digest(self) -> str:
        """Returns the hash over every column except `hash`; `prev_hash` chains the ranges."""
        values = [getattr(self, field.attname) for field in self._meta.concrete_fields if field.name != "hash"]
        plain = [rfc3339(value) if isinstance(value, datetime) else value for value in values]
        return hashlib.sha256(orjson.dumps(plain)).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        return {
            "first_position": self.first_position,
            "last_position": self.last_position,
            "file": self.file,
            "sha256": self.sha256,
            "until": rfc3339(self.until),
            "archived_at": rfc3339(self.archived_at),
            "operator": self.operator,
            "reason": self.reason,
        }


class Anchor(models.Model):
    """The last event of an entity in an archived range; its chain continues from its newest anchor."""

    append_only = True

    archived_range = models.ForeignKey(ArchivedRange, models.PROTECT, related_name="+", db_column="retirement_id")
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
    # Whether this event or an archived one before it was an override.
    was_forced = models.BooleanField()
    # The digest of the evidence in this event; empty if an earlier version wrote it.
    evidence = models.CharField(max_length=64, default="", db_default="")

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("entity_type", "entity_id", "sequence"), name="anchor_is_one_event"),
        )
        indexes = (models.Index(fields=("entity_type", "position"), name="anchor_by_machine"),)

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id} up to event #{self.sequence}"


class AnchorValues(NamedTuple):
    """The columns of an anchor; their order is the sort order of the digest."""

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
    evidence: str


def digest_anchors(anchors: Iterable[AnchorValues]) -> str:
    """Sorts the anchors itself, because the collations of databases differ."""
    digest = hashlib.sha256()
    for anchor in sorted(anchors):
        values = [rfc3339(value) if isinstance(value, datetime) else value for value in anchor]
        # Without an empty digest, as earlier versions did.
        digest.update(orjson.dumps(values if anchor.evidence else values[:-1], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def get_last_archived_position() -> int:
    """Returns the last archived position; 0 if nothing is archived."""
    return ArchivedRange.objects.order_by("-last_position").values_list("last_position", flat=True).first() or 0


def get_latest_archived_range() -> ArchivedRange | None:
    return ArchivedRange.objects.order_by("-last_position").first()


def build_archived_refusal(record: ArchivedRange, subject: str) -> Archived:
    """Returns the refusal of a request that needs archived events; `subject` describes them in the singular."""
    detail = f"{subject} was archived on {format_utc(record.archived_at)} in {record.file}"
    return Archived(detail, archived_upto=record.last_position, file=record.file, until=rfc3339(record.until))


def list_anchors(entity_type: str, entity_id: str) -> models.QuerySet[Anchor]:
    """Returns the entity's anchors with their ranges, newest first."""
    found = Anchor.objects.filter(entity_type=entity_type, entity_id=entity_id)
    return found.select_related("archived_range").order_by("-sequence")


def sum_counters(column: str) -> Counter[tuple[Any, ...]]:
    """Returns the counts of all archived events; `column` is `transitions` or `forced` (overrides)."""
    found: Counter[tuple[Any, ...]] = Counter()
    for listed in ArchivedRange.objects.values_list(column, flat=True):
        for *key, count in listed:
            found[tuple(key)] += count
    return found
