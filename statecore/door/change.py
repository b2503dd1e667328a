"""One change of one entity, from the state it was in to the event that records it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from .. import journal
from ..journal import Entry, EventKind
from ..kernel.entity import Entity
from ..kernel.moves import Facts, Severity
from ..kernel.plain import object_complaint, text_complaint
from ..kernel.refusals import Invalid

REASON_LIMIT = 2_000
METADATA_LIMIT = 16_384


class Change(NamedTuple):
    """What the reactions are told and what is written."""

    entity: Entity
    entry: Entry
    columns: tuple[str, ...]
    before: Mapping[str, Any]  # the row as it was; nothing for a new one


class Account(NamedTuple):
    """How a change is to be recorded."""

    kind: EventKind
    trigger: str
    severity: Severity
    facts: Facts
    metadata: Mapping[str, Any]
    caused_by: str = ""
    details: Mapping[str, Any] | None = None


Before = dict[str, Any]


def as_it_was(entity: Entity) -> Before:
    """What the row held when it was locked."""
    return entity.__dict__.copy()


def record(entity: Entity, before: Before, account: Account) -> Change:
    """Bring the entity's own fields in line with its new state and chain the event."""
    at = account.facts.at
    dwell = (at - entity.state_entered_at).total_seconds()
    metadata = entity.journal_facts(account.trigger)
    entity.settle(at, account.facts.reason)
    entity.version += 1
    entity.updated_at = entity.state_entered_at = at
    entry = _entry(entity, before["state"], account, metadata, round(dwell, 6))
    entity.chain_head = entry.hash
    return Change(entity, entry, _changed(entity, before), before)


def _changed(entity: Entity, before: Before) -> tuple[str, ...]:
    now = entity.__dict__
    limits = _limits(type(entity))
    changed = tuple([name for name in limits if now[name] is not before[name] and now[name] != before[name]])
    for name in changed:
        # SQLite would keep any length, PostgreSQL would answer with an error of its own.
        if limits[name] and isinstance(now[name], str) and len(now[name]) > limits[name]:
            raise Invalid({name: [f"must be at most {limits[name]} characters."]})
    return changed


@cache
def _limits(model: type[Entity]) -> dict[str, int]:
    """Every column, with the length its texts may have; 0 where there is no limit."""
    return {field.attname: field.max_length or 0 for field in model._meta.concrete_fields}


def record_creation(entity: Entity, account: Account) -> Change:
    at = account.facts.at
    entity.created_at = entity.updated_at = entity.state_entered_at = at
    metadata = entity.journal_facts(account.trigger)
    entity.settle(at, account.facts.reason)
    entity.version = 1
    entry = _entry(entity, "", account, metadata, 0)
    entity.chain_head = entry.hash
    return Change(entity, entry, tuple(_limits(type(entity))), {})


def _entry(entity: Entity, from_state: str, account: Account, metadata: Mapping[str, Any], dwell: float) -> Entry:
    facts, flow = account.facts, entity.flow
    override = account.kind is EventKind.OVERRIDE
    return journal.entry(
        entity_type=flow.entity_type,
        entity_id=entity.pk,
        sequence=entity.version,
        prev_hash=entity.chain_head or journal.GENESIS,
        kind=account.kind.value,
        trigger=account.trigger,
        from_state=from_state,
        to_state=entity.state,
        severity=account.severity.value,
        actor=facts.actor.name,
        channel=facts.actor.channel.value,
        at=facts.at,
        caused_by=account.caused_by,
        details={
            "event_type": journal.OVERRIDDEN if override else f"{flow.event_noun}_state_transition",
            "actor_kind": facts.actor.kind.value,
            "operator": facts.actor.operator_name,
            "reason": facts.reason or None,
            "metadata": {**account.metadata, **metadata, **({"tool": facts.actor.tool} if facts.actor.tool else {})},
            "context": entity.context(),
            "dwell_seconds": dwell,
            "attempt": entity.attempt,
            **(account.details or {}),
        },
    )


def check_words(reason: str, metadata: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> None:
    """What a caller says beside the trigger: of the right type, and such that the journal can keep it."""
    errors = {}
    if complaint := text_complaint(reason, REASON_LIMIT):
        errors["reason"] = [complaint]
    if complaint := object_complaint(metadata, METADATA_LIMIT):
        errors["metadata"] = [complaint]
    if not isinstance(params or {}, Mapping):
        errors["params"] = ["must be an object."]
    if errors:
        raise Invalid(errors)
