"""Entries: events that belong to no row of a machine, such as those of accounts and holds. They have no states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

from ..kernel import registry
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.transition import Severity
from ..storage.write_guard import allow_writes
from .chain_ends import lock_chain_end
from .event_names import EventKind
from .events import Entry, Event, build_entry


def append_entry(
    kind: EventKind,
    entity_type: str,
    entity_id: str,
    trigger: str,
    *,
    actor: Actor,
    metadata: Mapping[str, Any],
    context: Mapping[str, Any],
    reason: str | None = None,
    severity: Severity = Severity.INFO,
) -> Entry:
    """Append an entry to its chain, in the transaction of the change if there is one."""
    with transaction.atomic():
        sequence, prev_hash = lock_chain_end(entity_type, entity_id)
        entry = build_entry(
            entity_type=entity_type,
            entity_id=entity_id,
            sequence=sequence + 1,
            prev_hash=prev_hash,
            kind=kind.value,
            trigger=trigger,
            from_state="",
            to_state="",
            severity=severity.value,
            actor=actor.name,
            channel=actor.channel.value,
            at=now(),
            details={
                "event_type": f"{entity_type}_entry",
                "actor_kind": actor.kind.value,
                "operator": actor.name if actor.kind is Kind.OPERATOR else None,
                "identity": actor.identity or None,
                "reason": reason,
                "metadata": dict(metadata),
                "context": dict(context),
                "dwell_seconds": 0,
                "attempt": 0,
            },
        )
        with allow_writes(connection):
            Event(**entry._asdict()).save(force_insert=True)
        for listener in registry.listeners:
            transaction.on_commit(listener)
    return entry
