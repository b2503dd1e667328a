"""Changing one entity in memory: fire a trigger, bring dependent fields in line, record the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import orjson
import structlog
from prometheus_client import Counter

from .. import journal
from ..journal import Entry, EventKind
from ..kernel import evidence
from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity, HeartbeatEntity
from ..kernel.refusals import (
    AlreadyInState,
    AlreadyRetried,
    GuardFailed,
    Invalid,
    InvalidTransition,
    LeaseLost,
    PermissionDenied,
    Refusal,
    StaleVersion,
    TerminalState,
    UnknownTrigger,
    Unmet,
)
from ..kernel.transition import Facts, Severity, Transition, lease_lost_reason, validate_params
from ..kernel.validation import object_error, text_error
from . import rights

log = structlog.get_logger(__name__)

deprecated_transitions_total = Counter(
    "statecore_deprecated_transitions_total", "Uses of deprecated transitions", ["entity_type", "trigger"]
)

REASON_LIMIT = 2_000
METADATA_LIMIT = 16_384
JSON_CONTAINERS = (dict, list)


class Change(NamedTuple):
    """A recorded change: what is written, and what reactions receive."""

    entity: Entity
    entry: Entry
    columns: tuple[str, ...]
    before: Mapping[str, Any]  # the attributes before the change; empty for a new entity
    after: Mapping[str, Any]  # as they are written: the entity may change again before that

    def facts_before(self) -> dict[str, Any]:
        """Returns what a caller needs whose change a reaction refuses: the entity stays as it was."""
        state = self.before["state"]
        return {"state": state, "version": self.before["version"], "allowed": self.entity.flow.allowed(state)}


class EventSpec(NamedTuple):
    """How a change is recorded."""

    kind: EventKind
    trigger: str
    severity: Severity
    facts: Facts
    metadata: Mapping[str, Any]
    caused_by: str = ""
    details: Mapping[str, Any] | None = None


# Firing a trigger


def check_version(entity: Entity, expected: int | None) -> None:
    if expected is not None and (isinstance(expected, bool) or expected != entity.version):
        raise StaleVersion(f"{entity} is at version {entity.version}, not {expected}", **entity.current_facts())


def fire(entity: Entity, trigger: str, facts: Facts) -> Transition | None:
    """Apply the first permitted transition with all guards met; return None if the trigger repeats a report.

    Replaces `facts.params` by the validated values.
    """
    # Read past the descriptor, which costs a call; the row of an entity that changes is always loaded whole.
    flow, state, actor = entity.flow, entity.__dict__["state"], facts.actor
    allowed = flow.open_to.get((state, str(trigger), actor.kind))
    if allowed is None:
        if _is_repeat(entity, trigger, facts):
            return None
        raise _not_open(entity, trigger, facts)
    if actor.kind is not Kind.SYSTEM:
        rights.require_change(actor, entity, facts.params.get("attempt"))
    if state in flow.final:
        check_not_retried(entity)
    if facts.validated_for is not allowed[0].params:
        facts.params, facts.validated_for = validate_params(allowed[0].params, facts.params), allowed[0].params
    unmet: list[Unmet] = []
    for candidate in allowed:
        reasons = candidate.apply(entity, facts)
        if not reasons:
            if candidate.deprecated:
                _warn_of_deprecation(candidate, entity, actor)
            return candidate
        unmet += [reason for reason in reasons if reason not in unmet]  # several transitions may share a guard
    raise _guards_failed(entity, trigger, unmet)


def check_not_retried(entity: Entity) -> None:
    """Refuse to leave a final state once a successor has taken the entity's place."""
    successor = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    if successor is not None:
        raise AlreadyRetried(f"{entity} was retried as {successor}", successor=successor, **entity.current_facts())


def event_spec(fired: Transition, facts: Facts, metadata: Mapping[str, Any], cause: Entry | None) -> EventSpec:
    kind = EventKind.PROPAGATED if cause else EventKind.NORMAL
    caused_by = cause.event_id if cause else ""
    return EventSpec(kind, fired.trigger, fired.severity, facts, metadata, caused_by=caused_by)


def _leading_here(entity: Entity, trigger: str) -> tuple[Transition, ...]:
    """Return the transitions of this trigger that lead to the current state."""
    return tuple(
        declared
        for declared in entity.flow.transitions
        if declared.trigger == trigger and declared.target == entity.state
    )


def _is_repeat(entity: Entity, trigger: str, facts: Facts) -> bool:
    """Whether an actor that may fire this trigger repeats a report that was applied already."""
    flow = entity.flow
    if not flow.repeats_are_noops or flow.open_transitions(entity.state, trigger):
        return False
    candidates = _leading_here(entity, trigger)
    if not candidates:
        return False
    allowed = [candidate for candidate in candidates if facts.actor.kind in candidate.actors]
    if not allowed:
        raise _wrong_actor(entity, candidates, facts.actor)
    rights.require(facts.actor, flow, "operate")
    rights.require_holder(facts.actor, entity)
    facts.params = validate_params(allowed[0].params, facts.params)
    return entity.is_repeat(facts)


def _wrong_actor(entity: Entity, candidates: Sequence[Transition], actor: Actor) -> PermissionDenied:
    """Return the refusal of an actor whose kind may fire none of these transitions."""
    rights.require(actor, entity.flow, "operate")
    required = sorted({kind for candidate in candidates for kind in candidate.actors})
    sentence = f"{candidates[0].trigger} takes {' or '.join(required)}, not {actor.kind}"
    return PermissionDenied(sentence, required=required)


def _not_open(entity: Entity, trigger: str, facts: Facts) -> Refusal:
    flow, state = entity.flow, entity.state
    if trigger not in flow.triggers:
        return UnknownTrigger(f"{flow.entity_type} has no trigger {trigger!r}", triggers=list(flow.triggers))
    if candidates := flow.open_transitions(state, trigger):
        return _wrong_actor(entity, candidates, facts.actor)
    if (attempt := facts.params.get("attempt")) is not None and entity.lease_is_stale(attempt):
        # The entity changed without this caller, which needs to learn that its lease is gone.
        return _guards_failed(entity, trigger, [lease_lost_reason(entity, attempt)])
    if _leading_here(entity, trigger):
        return AlreadyInState(f"{entity} is {state} already", **entity.current_facts())
    if flow.is_final(state):
        return TerminalState(f"{trigger} is not open: {entity} is {state}, which is final", **entity.current_facts())
    return InvalidTransition(f"{trigger} is not open from {state}", **entity.current_facts())


def _guards_failed(entity: Entity, trigger: str, unmet: list[Unmet]) -> Refusal:
    refusal = LeaseLost if any(reason.code == LeaseLost.code for reason in unmet) else GuardFailed
    return refusal(trigger, unmet, **entity.current_facts())


def _warn_of_deprecation(fired: Transition, entity: Entity, actor: Actor) -> None:
    deprecated_transitions_total.labels(entity.flow.entity_type, fired.trigger).inc()
    log.warning(
        "deprecated_transition", transition=fired.name, instead=fired.deprecated, entity=str(entity), actor=actor.name
    )


# Recording


_EVENT_TYPES = {EventKind.OVERRIDE: journal.OVERRIDDEN, EventKind.EDITED: "{}_edited"}


def record(entity: Entity, before: Mapping[str, Any], spec: EventSpec) -> Change:
    """Bring the dependent fields in line with the new state and append the event to the entity's chain.

    `before` holds the attributes before the change; empty for a new entity.
    """
    facts, at = spec.facts, spec.facts.at
    dwell = round((at - entity.state_entered_at).total_seconds(), 6) if before else 0
    if not before:
        entity.created_at = entity.updated_at = entity.state_entered_at = at
    metadata = {**spec.metadata, **entity.event_metadata(spec.trigger)}
    if facts.actor.tool:
        metadata["tool"] = facts.actor.tool
    state, free_in = entity.__dict__["state"], entity.flow.free_in
    entity.sync_state_fields(state, at, facts.reason)
    if isinstance(entity, HeartbeatEntity):
        entity.note_sign_of_life(at, facts.actor, state, before.get("state"))
    # An override takes a leased entity from its holder, but not a registered one.
    if state in free_in or (spec.kind is EventKind.OVERRIDE and free_in):
        entity.holder = ""
    elif facts.actor.holds:
        entity.holder = facts.actor.identity
    entity.state_entered_at = at
    return _append_event(entity, before, spec, state, metadata, dwell)


def record_edit(entity: Entity, before: Mapping[str, Any], spec: EventSpec) -> Change:
    """Append the event of an edit: the state, and the time at which it was entered, stay."""
    return _append_event(entity, before, spec, entity.state, spec.metadata, 0)


def _append_event(
    entity: Entity,
    before: Mapping[str, Any],
    spec: EventSpec,
    state: str,
    metadata: Mapping[str, Any],
    dwell: float,
) -> Change:
    facts, flow, at = spec.facts, entity.flow, spec.facts.at
    entity.version += 1
    entity.updated_at = at
    entry = journal.build_entry(
        entity_type=flow.entity_type,
        entity_id=entity.id,
        sequence=entity.version,
        prev_hash=entity.chain_head or journal.GENESIS,
        kind=spec.kind.value,
        trigger=spec.trigger,
        from_state=before.get("state", ""),
        to_state=state,
        severity=spec.severity.value,
        actor=facts.actor.name,
        channel=facts.actor.channel.value,
        at=at,
        caused_by=spec.caused_by,
        details={
            "event_type": _EVENT_TYPES.get(spec.kind, "{}_state_transition").format(flow.event_noun),
            "actor_kind": facts.actor.kind.value,
            "operator": facts.actor.name if facts.actor.kind is Kind.OPERATOR else None,
            "identity": facts.actor.identity or None,
            "reason": facts.reason or None,
            "metadata": metadata,
            "context": entity.context(),
            "dwell_seconds": dwell,
            "attempt": entity.attempt,
            "evidence": evidence.digest(type(entity), entity.__dict__),
            # Another digest than that of the previous event shows a row that was changed without an event.
            **({"evidence_before": evidence.digest(type(entity), before)} if before else {}),
            **(spec.details or {}),
        },
    )
    entity.chain_head = entry.hash
    return Change(entity, entry, _changed_columns(entity, before), before, entity.__dict__.copy())


def _changed_columns(entity: Entity, before: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns to write: all of a new entity. Raises Invalid for a changed text that is too long."""
    limits, now = _limits(type(entity)), entity.__dict__
    if not before:
        return tuple(limits)
    changed = [
        name
        for name in limits
        if (value := now[name]) is not (old := before[name]) and (value != old or _differ_as_json(value, old))
    ]
    for name in changed:
        # SQLite stores any length; PostgreSQL raises an error that names no field.
        if (limit := limits[name]) and isinstance(now[name], str) and len(now[name]) > limit:
            raise Invalid({name: [f"must be at most {limit} characters."]})
    return tuple(changed)


def _differ_as_json(value: object, before: object) -> bool:
    """Whether equal values are stored differently: in Python, 1 equals True."""
    if not isinstance(value, JSON_CONTAINERS):
        return False
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) != orjson.dumps(before, option=orjson.OPT_SORT_KEYS)


@cache
def _limits(model: type[Entity]) -> dict[str, int]:
    """Return the maximum text length of every column; 0 means no limit."""
    return {field.attname: field.max_length or 0 for field in model._meta.concrete_fields}


def validate_reason_and_metadata(
    reason: str, metadata: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> None:
    """Refuse a reason or metadata that the journal cannot store."""
    if reason == "" and metadata == {} and isinstance(params or {}, Mapping):
        return
    errors = {}
    if complaint := text_error(reason, REASON_LIMIT):
        errors["reason"] = [complaint]
    if complaint := object_error(metadata, METADATA_LIMIT):
        errors["metadata"] = [complaint]
    if not isinstance(params or {}, Mapping):
        errors["params"] = ["must be an object."]
    if errors:
        raise Invalid(errors)
