"""Events, the append-only hash-chained record of every change, and the stored responses of idempotent requests.

The hash of an event is the SHA-256 of its canonical bytes, which are stored in `body` and contain the previous hash.
Canonical JSON has the members below in this order, no white space, then the details with sorted keys. The members that
are also columns come first, so that the database can compare columns with the beginning of the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now, rfc3339
from ..kernel.fields import STATE_LENGTH
from ..kernel.ids import ID_LENGTH, IdField, new_id
from ..storage.journal_rules import GENESIS as GENESIS
from .event_names import EventKind, name_event

EVENT_ID_LENGTH = 30
KEY_LENGTH, ENDPOINT_LENGTH = 200, 255
OVERRIDDEN = "manual_override"  # the trigger of every override


# The kinds of events about entities, and those of them that change a state.
_WITHOUT_STATE = (EventKind.ACCOUNT, EventKind.EPOCH, EventKind.HOLD)
ENTITY_KINDS = [kind.value for kind in EventKind if kind not in _WITHOUT_STATE]
TRANSITION_KINDS = [kind for kind in ENTITY_KINDS if kind != EventKind.EDITED]


class Event(models.Model):
    """One change of one entity: written by the transition service, never updated, deleted only by retention."""

    append_only = is_archivable = True

    event_id = IdField(primary_key=True, max_length=EVENT_ID_LENGTH)
    entity_type = models.CharField(max_length=32)
    entity_id = models.CharField(max_length=ID_LENGTH)
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    trigger = models.CharField(max_length=64)
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    severity = models.CharField(max_length=16)
    actor = models.CharField(max_length=NAME_LENGTH)
    channel = models.CharField(max_length=16)
    timestamp = models.DateTimeField()
    caused_by = models.CharField(max_length=EVENT_ID_LENGTH)
    prev_hash = models.CharField(max_length=64)
    body = models.TextField()
    hash = models.CharField(max_length=64)

    class Meta:
        default_permissions = ("view",)
        permissions = (("view_accounts", "Can view the account journal"),)
        constraints = (
            # A chain cannot fork: the second event with the same sequence is rejected.
            models.UniqueConstraint(fields=("entity_type", "entity_id", "sequence"), name="event_chain_is_linear"),
        )

    def __str__(self) -> str:
        return f"{self.event_id} {self.entity_type} {self.entity_id}: {self.from_state} → {self.to_state}"

    def as_dict(self) -> dict[str, Any]:
        return parse_event(self.body, self.hash)


class Entry(NamedTuple):
    """The columns of an event that is not stored yet."""

    event_id: str
    entity_type: str
    entity_id: str
    sequence: int
    kind: str
    trigger: str
    from_state: str
    to_state: str
    severity: str
    actor: str
    channel: str
    timestamp: datetime
    caused_by: str
    prev_hash: str
    body: str
    hash: str

    def as_dict(self) -> dict[str, Any]:
        return parse_event(self.body, self.hash)


COLUMNS = Entry._fields
# The canonical bytes begin with these, in this order, as `"name":"value"` (the sequence as a number).
MIRRORED = COLUMNS[:-2]
_DWELL = '"dwell_seconds":'


def build_entry(
    *,
    entity_type: str,
    entity_id: str,
    sequence: int,
    prev_hash: str,
    kind: str,
    trigger: str,
    from_state: str,
    to_state: str,
    severity: str,
    actor: str,
    channel: str,
    at: datetime,
    caused_by: str = "",
    details: Mapping[str, Any],
) -> Entry:
    event_id = new_id("evt")
    # No mirrored value needs escaping: ids, states and triggers are identifiers, and Actor validates its name.
    body = (
        f'{{"event_id":"{event_id}","entity_type":"{entity_type}","entity_id":"{entity_id}","sequence":{sequence},'
        f'"kind":"{kind}","trigger":"{trigger}","from_state":"{from_state}","to_state":"{to_state}",'
        f'"severity":"{severity}","actor":"{actor}","channel":"{channel}","timestamp":"{rfc3339(at)}",'
        f'"caused_by":"{caused_by}","prev_hash":"{prev_hash}","details":'
        f"{orjson.dumps(details, option=orjson.OPT_SORT_KEYS).decode()}}}"
    )
    return Entry(
        event_id, entity_type, entity_id, sequence, kind, trigger, from_state, to_state, severity, actor, channel,
        at, caused_by, prev_hash, body, digest(body),
    )  # fmt: skip


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def dwell_seconds(body: str) -> float:
    """Returns the time spent in the previous state without parsing the whole event.

    Only ids and names precede this member, and those cannot contain its quoted name.
    """
    start = body.index(_DWELL) + len(_DWELL)
    return float(body[start : body.index(",", start)])


def actor_kind_prefix(kind: str) -> str:
    """Returns how the details begin in the bytes of an event by this kind of actor; no other key sorts before it."""
    return f'"details":{{"actor_kind":"{kind}",'


def parse_event(body: str, hash_: str) -> dict[str, Any]:
    """Returns an event as the API serves it: its members with the details merged in, its name, version and hash."""
    members: dict[str, Any] = orjson.loads(body)
    members |= members.pop("details")
    members["caused_by"] = members["caused_by"] or None
    members["event_name"] = name_event(members["entity_type"], members["kind"], members["trigger"], members["to_state"])
    members["from_state"] = members["from_state"] or None
    members.setdefault("identity", None)  # events of earlier versions have none
    return members | {"version": members["sequence"], "hash": hash_}


class IdempotencyRecord(models.Model):
    """The response to a request with an idempotency key, stored so that a repeat gets the same one."""

    actor = models.CharField(max_length=NAME_LENGTH)
    actor_kind = models.CharField(max_length=16)
    key = models.CharField(max_length=KEY_LENGTH)
    endpoint = models.CharField(max_length=ENDPOINT_LENGTH)
    body_hash = models.CharField(max_length=64)
    response = models.JSONField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(fields=("actor", "actor_kind", "key"), name="idempotency_key_is_unique_per_actor"),
        )

    def __str__(self) -> str:
        return f"{self.actor} {self.key}"


EXPIRY_BATCH, EXPIRY_LIMIT = 1_000, 100_000


def expire_idempotency_records(limit: int = EXPIRY_LIMIT) -> int:
    """Deletes expired records, oldest first, in batches, and returns how many; at most `limit`."""
    expired = IdempotencyRecord.objects.filter(expires_at__lte=now())
    count = 0
    while count < limit:
        oldest = list(expired.order_by("expires_at").values_list("pk", flat=True)[: min(EXPIRY_BATCH, limit - count)])
        if not oldest:
            break
        expired.filter(pk__in=oldest).delete()
        count += len(oldest)
    return count
