"""Firing a trigger: the ordinary way a state changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from ..journal import Entry, EventKind
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.lease import lost
from ..kernel.moves import Facts, Move
from ..kernel.params import read_params
from ..kernel.refusals import (
    AlreadyInState,
    AlreadyRetried,
    GuardFailed,
    InvalidTransition,
    LeaseLost,
    Refusal,
    StaleVersion,
    TerminalState,
    UnknownTrigger,
    Unmet,
)
from . import alone, rights, rows, write
from .change import Account, as_it_was, check_words, record
from .idempotency import RequestKey, answer_once
from .outcome import Outcome
from .perform import perform, react_to
from .refused import counted

log = structlog.get_logger(__name__)


def transition(
    model: type[Entity],
    entity_id: str,
    trigger: str,
    *,
    actor: Actor,
    params: Mapping[str, Any] | None = None,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    cause: Entry | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Lock, check, move, record, react: all of it or nothing. Without the lock where it makes no difference."""

    def judge(entity: Entity) -> Outcome:
        check_version(entity, expected_version)
        before = as_it_was(entity)
        facts = Facts(max(now(), entity.updated_at), actor, params or {}, reason)
        move = fire(entity, trigger, facts)
        if move is None:
            return Outcome(entity, None)
        change = record(entity, before, account_of(move, facts, metadata or {}, cause))
        write.update([change])
        caused = react_to([change])
        return Outcome(rows.latest(entity), change.entry, caused)

    with counted(model.flow.entity_type):
        check_words(reason, metadata or {}, params or {})
        if request is None and not dry_run and (moved := alone.move(model, entity_id, trigger, judge)):
            return moved
        return perform(
            lambda: answer_once(request, actor, lambda: judge(rows.lock(model, entity_id))), keep=not dry_run
        )


def check_version(entity: Entity, expected: int | None) -> None:
    if expected is not None and (isinstance(expected, bool) or expected != entity.version):
        raise StaleVersion(f"{entity} is at version {entity.version}, not {expected}", **entity.standing())


def fire(entity: Entity, trigger: str, facts: Facts) -> Move | None:
    """Make the first move of this trigger whose guards hold; None for a repeat that changes nothing."""
    flow = entity.flow
    open_moves = flow.open_moves(entity.state, str(trigger))
    if not open_moves:
        if flow.repeats_are_noops and _repeats(entity, trigger, facts):
            return None
        raise _not_open(entity, trigger, facts)
    mine = rights.may_fire(facts.actor, flow, open_moves)
    if facts.params.get("attempt") in (None, entity.attempt):  # else it is told that it has lost its lease
        rights.must_hold(facts.actor, entity)
    if flow.is_final(entity.state):
        check_not_succeeded(entity)
    if facts.read_by is not mine[0].params:
        facts.params, facts.read_by = read_params(mine[0].params, facts.params), mine[0].params
    unmet: list[Unmet] = []
    for move in mine:
        reasons = move.make(entity, facts)
        if not reasons:
            _warn_if_deprecated(move, entity, facts.actor)
            return move
        unmet += reasons
    raise _guarded(entity, trigger, unmet)


def check_not_succeeded(entity: Entity) -> None:
    """What was retried stays where it ended: its successor goes on in its place."""
    successor = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    if successor is not None:
        raise AlreadyRetried(f"{entity} was retried as {successor}", successor=successor, **entity.standing())


def account_of(move: Move, facts: Facts, metadata: Mapping[str, Any], cause: Entry | None) -> Account:
    kind = EventKind.PROPAGATED if cause else EventKind.NORMAL
    return Account(
        kind,
        move.trigger,
        move.severity,
        facts,
        metadata,
        caused_by=cause.event_id if cause else "",
    )


def _moves_here(entity: Entity, trigger: str) -> tuple[Move, ...]:
    """The moves of this trigger that would have led to where the entity is already."""
    return tuple(move for move in entity.flow.moves if move.trigger == trigger and move.target == entity.state)


def _repeats(entity: Entity, trigger: str, facts: Facts) -> bool:
    """Whether this says again what is true already: it must be somebody who might have said it the first time."""
    moves = _moves_here(entity, trigger)
    if not moves:
        return False
    facts.params = read_params(rights.may_fire(facts.actor, entity.flow, moves)[0].params, facts.params)
    return entity.is_repeated_by(facts)


def _not_open(entity: Entity, trigger: str, facts: Facts) -> Refusal:
    flow, state = entity.flow, entity.state
    if trigger not in flow.triggers:
        return UnknownTrigger(f"{flow.entity_type} has no trigger {trigger!r}", triggers=list(flow.triggers))
    if (attempt := facts.params.get("attempt")) is not None and entity.has_lost(attempt):
        # The entity moved on without this caller: what it needs to hear is that its lease is gone.
        return _guarded(entity, trigger, [lost(entity, attempt)])
    if _moves_here(entity, trigger):
        return AlreadyInState(f"{entity} is {state} already", **entity.standing())
    if flow.is_final(state):
        return TerminalState(f"{trigger} is not open: {entity} is {state}, which is final", **entity.standing())
    return InvalidTransition(f"{trigger} is not open from {state}", **entity.standing())


def _guarded(entity: Entity, trigger: str, unmet: list[Unmet]) -> Refusal:
    refusal = LeaseLost if any(reason.code == LeaseLost.code for reason in unmet) else GuardFailed
    return refusal(trigger, unmet, **entity.standing())


def _warn_if_deprecated(move: Move, entity: Entity, actor: Actor) -> None:
    if move.deprecated:
        log.warning("deprecated_move", move=move.name, instead=move.deprecated, entity=str(entity), actor=actor.name)
