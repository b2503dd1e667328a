"""The append-only record of every change: events in hash chains, their positions, Merkle tree and archives."""

from .archive import Anchor, ArchivedRange
from .checkpoints import SignedCheckpoint
from .event_names import EventKind
from .events import (
    COLUMNS,
    ENDPOINT_LENGTH,
    ENTITY_KINDS,
    EVENT_ID_LENGTH,
    GENESIS,
    KEY_LENGTH,
    MIRRORED,
    OVERRIDDEN,
    TRANSITION_KINDS,
    Entry,
    Event,
    IdempotencyRecord,
    actor_kind_prefix,
    build_entry,
    digest,
    dwell_seconds,
    expire_idempotency_records,
    parse_event,
)
from .position import Numbering, Position
from .tree import TreeHashes

__all__ = [
    "COLUMNS",
    "ENDPOINT_LENGTH",
    "ENTITY_KINDS",
    "EVENT_ID_LENGTH",
    "GENESIS",
    "KEY_LENGTH",
    "MIRRORED",
    "OVERRIDDEN",
    "TRANSITION_KINDS",
    "Anchor",
    "ArchivedRange",
    "Entry",
    "Event",
    "EventKind",
    "IdempotencyRecord",
    "Numbering",
    "Position",
    "SignedCheckpoint",
    "TreeHashes",
    "Witness",
    "actor_kind_prefix",
    "build_entry",
    "digest",
    "dwell_seconds",
    "expire_idempotency_records",
    "parse_event",
]  # fmt: skip
