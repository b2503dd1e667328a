"""Forcing a state: bypasses guards, never the final-state policy, the constraints or the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from django.conf import settings
from django.db.models import TextChoices

from ..journal import OVERRIDDEN, EventKind
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.moves import Facts, Move, Severity
from ..kernel.refusals import AlreadyInState, GuardFailed, Invalid, PermissionDenied, Refusal, TerminalState
from ..kernel.state_field import StateField
from ..records import audit_note
from . import rights, rows, write
from .change import Account, as_it_was, check_words, record
from .idempotency import RequestKey, answer_once
from .outcome import Outcome
from .perform import perform, react_to
from .refused import counted
from .transition import check_not_succeeded, check_version

log = structlog.get_logger(__name__)

SHORTEST_REASON = 10


class Category(TextChoices):
    """Why operators force: an edge that is often forced is a missing edge."""

    STUCK = "stuck"
    CRASHED_WORKER = "crashed_worker"
    INFRASTRUCTURE = "infrastructure"
    WRONG_DATA = "wrong_data"
    EMERGENCY = "emergency"
    OTHER = "other"


def override(
    model: type[Entity],
    entity_id: str,
    to_state: str,
    *,
    actor: Actor,
    reason: str,
    category: str,
    approver: Actor | Refusal | None = None,
    metadata: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Force one entity into a state; with `dry_run`, do it, look at every cascade, and roll it back.

    An approver who could not be told who they are is a refusal, which is kept on record like any other.
    """

    def step() -> Outcome:
        entity = rows.lock(model, entity_id)
        check_version(entity, expected_version)
        before = as_it_was(entity)
        facts = Facts(max(now(), entity.updated_at), actor, {}, reason)
        _may_leave(entity, to_state, facts)
        approved_by = _second_person(entity, to_state, actor, second, is_preview=dry_run)
        bypassed = _force(entity, to_state, facts)
        details = {
            "category": str(category),
            "guards_bypassed": bypassed,
            "approver": approved_by,
        }
        account = Account(EventKind.OVERRIDE, OVERRIDDEN, Severity.WARNING, facts, metadata or {}, details=details)
        change = record(entity, before, account)
        write.update([change])
        write.flush()  # what is forced must satisfy the database as it is, before anything follows from it
        caused = react_to([change])
        return Outcome(rows.latest(entity), change.entry, caused)

    asked = {"to_state": to_state, "reason": reason, "category": category, "dry_run": dry_run}
    with counted(model.flow.entity_type), _refusals_noted(model, entity_id, actor, asked, is_preview=dry_run):
        _may_override(model, actor)
        second = _known(approver)
        _check_request(model, to_state, reason, category)
        check_words(reason, metadata or {})
        return perform(lambda: answer_once(request, actor, step), keep=not dry_run)


@contextmanager
def _refusals_noted(
    model: type[Entity], entity_id: str, actor: Actor, asked: Mapping[str, Any], *, is_preview: bool
) -> Iterator[None]:
    """In the log, and in a table that nobody can change: who tried to force what, and why not.

    Of those who only wanted to see what would happen, only who may not is noted.
    """
    try:
        yield
    except Refusal as refusal:
        if is_preview and not isinstance(refusal, PermissionDenied):
            raise
        told = {"entity_type": model.flow.entity_type, "entity_id": entity_id}
        log.warning("override_refused", **told, actor=actor.name, code=refusal.code, detail=refusal.detail)
        facts = {**asked, "code": refusal.code}
        audit_note.note(audit_note.Kind.OVERRIDE_REFUSED, actor=actor, **told, detail=refusal.detail, facts=facts)
        raise


def _may_override(model: type[Entity], actor: Actor) -> None:
    permission = model.flow.permission("override")
    if actor.kind is not Kind.OPERATOR:
        raise PermissionDenied("only an operator overrides", required=permission)
    rights.require(actor, model.flow, "override")


def _check_request(model: type[Entity], to_state: str, reason: str, category: str) -> None:
    errors: dict[str, list[str]] = {}
    if to_state not in model.flow.states:
        errors["to_state"] = [f"is not a state of {model.flow.entity_type}: {', '.join(model.flow.states)}."]
    if len(reason.strip()) < SHORTEST_REASON or not any(map(str.isalnum, reason)):
        errors["reason"] = [f"must be at least {SHORTEST_REASON} characters: it stays on record for ever."]
    if category not in Category.values:
        errors["category"] = [f"must be one of {', '.join(Category.values)}."]
    if errors:
        raise Invalid(errors)


def _moves_between(entity: Entity, to_state: str) -> list[Move]:
    return [move for move in entity.flow.moves if entity.state in move.sources and move.target == to_state]


def _may_leave(entity: Entity, to_state: str, facts: Facts) -> None:
    """A final state is left only by a declared exit, and the exit's own guards hold for an operator too."""
    if entity.state == to_state:
        raise AlreadyInState(f"{entity} is {to_state} already", **entity.standing())
    if not entity.flow.is_final(entity.state):
        return
    check_not_succeeded(entity)
    exits = _moves_between(entity, to_state)
    if not exits:
        raise TerminalState(f"{entity} is {entity.state}, which is final: retry it instead", **entity.standing())
    if all(unmet := [move.unmet(entity, facts) for move in exits]):
        raise GuardFailed(f"{entity} may leave {entity.state} only when", unmet[0], **entity.standing())


def takes_two(entity: Entity, to_state: str) -> bool:
    """Whether the policy demands a second person for this."""
    return _edge(entity, to_state) in settings.STATECORE_SECOND_PERSON


def _known(approver: Actor | Refusal | None) -> Actor | None:
    if isinstance(approver, Refusal):
        raise approver
    return approver


def _edge(entity: Entity, to_state: str) -> str:
    return f"{entity.flow.entity_type}.{entity.state}->{to_state}"


def _second_person(
    entity: Entity, to_state: str, actor: Actor, approver: Actor | None, *, is_preview: bool
) -> str | None:
    """The name of the operator who approved; nobody is named who was not checked, and a look needs nobody."""
    if approver is None and (is_preview or not takes_two(entity, to_state)):
        return None
    if approver is None or approver.name == actor.name or approver.kind is not Kind.OPERATOR:
        sentence = f"{_edge(entity, to_state)} takes a second operator's approval"
        raise PermissionDenied(sentence, required="second_person")
    rights.require(approver, entity.flow, "override")
    return approver.name


def _force(entity: Entity, to_state: str, facts: Facts) -> list[str]:
    """Set the state without its guards; the names of those that would have refused, or of the missing edge."""
    from_state, moves = entity.state, _moves_between(entity, to_state)
    bypassed = {name for move in moves for name in _would_refuse(move, entity, facts)}
    entity.facts = facts
    StateField.force(entity, to_state)
    entity.attempt += 1
    return sorted(bypassed) if moves else [f"no_edge_from_{from_state}_to_{to_state}"]


def _would_refuse(move: Move, entity: Entity, facts: Facts) -> list[str]:
    """A move that asks for fields cannot be asked without them: all its guards are bypassed."""
    if move.leaves_final:  # its guards were asked before, and held
        return []
    unasked = any(param.required for param in move.params)
    return [guard.__name__ for guard in move.guards if unasked or guard(entity, facts) is not None]
