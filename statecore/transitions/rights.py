"""Whether an actor may change an entity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..journal import Event
from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.refusals import LeaseLost, NotTheHolder, PermissionDenied, SamePerson
from ..kernel.transition import lease_lost_reason
from ..records.executor_work import is_done_by_executors
from ..records.token import accounts_of, identities_of


def require(actor: Actor, flow: Flow, action: str) -> None:
    """Require the machine's permission of an operator; agents and the system are limited by each transition."""
    if actor.kind is Kind.OPERATOR and not actor.has_permission(permission := flow.permission(action)):
        raise PermissionDenied(f"{actor.name} may not {action} {flow.entity_type} rows", required=permission)


def require_record(actor: Actor, action: str, record: str) -> None:
    """Require an operator with Django's permission for a record, such as `add` and `hold`."""
    permission = f"statecore.{action}_{record}"
    if actor.kind is not Kind.OPERATOR or not actor.has_permission(permission):
        raise PermissionDenied(f"{actor.name} may not {action} a {record}", required=permission)


def require_change(actor: Actor, entity: Entity, attempt: object) -> None:
    """Require that the actor may change the entity at all, whatever the guards of the transition.

    An operator needs the permission, an agent must hold the entity or take a free one, and an integrator must not
    judge its own work. An agent with a stale attempt passes: it is refused as one that has lost its lease.
    """
    if actor.kind is Kind.OPERATOR:
        require(actor, entity.flow, "operate")
        return
    if actor.holds and entity.holder != actor.identity and attempt in (None, entity.attempt):
        require_holder(actor, entity)
    if actor.kind is Kind.INTEGRATOR:
        require_independence(actor, entity)


def require_creation(actor: Actor, flow: Flow) -> None:
    """Require that this kind of actor may create entities of the machine, and the permission of an operator."""
    if actor.kind not in flow.created_by:
        required = sorted(flow.created_by)
        raise PermissionDenied(f"{flow.entity_type} rows are created by {' or '.join(required)}", required=required)
    require(actor, flow, "operate")


def require_part(actor: Actor, part: Entity) -> None:
    """Refuse an agent that adds a part to a run of another account, unless its account has done a task of the run.

    The failure of a part can fail the run.
    """
    if actor.kind is not Kind.AGENT or getattr(part, "run_id", None) is None:
        return
    run: Any = part.run  # type: ignore[attr-defined]
    own = [actor.identity] if actor.owner is None else identities_of(actor.owner)
    if not (run.tasks.filter(holder__in=own).exists() or _submitters(run).intersection(own)):
        detail = f"{run} was submitted by another account, and {actor.name} holds none of its tasks"
        raise NotTheHolder(detail, holder=run.holder, **run.current_facts())


def _submitters(run: Any) -> set[str]:
    """Return the identities that submitted the run or a run that it succeeds, from their first events."""
    ids = []
    while run is not None:
        ids.append(run.pk)
        run = run.retry_of
    first = Event.objects.filter(entity_type="run", entity_id__in=ids, sequence=1)
    return {event.as_dict()["identity"] or "" for event in first} - {""}


def require_linkable(actor: Actor, target: type[Entity], ids: Iterable[str]) -> None:
    """Refuse an agent that links to entities whose course the link would change, such as the gates of others."""
    if actor.kind is Kind.AGENT and (closed := target.closed_to_agents(ids)):
        detail = f"{target.flow.entity_type} {closed[0]} tests the work of others: agents do not link to it"
        raise PermissionDenied(detail, required=[Kind.OPERATOR, Kind.SYSTEM])


def require_holder(actor: Actor, entity: Entity) -> None:
    """Refuse an agent that works on an entity held by another agent; a free entity is open to all."""
    if actor.holds and not entity.is_free() and entity.holder != actor.identity:
        raise _not_the_holder(actor, entity)


def require_own(actor: Actor, entity: Entity) -> None:
    """Refuse an agent that does not hold the entity, even if it is free."""
    if actor.holds and not entity.is_held_by(actor):
        raise _not_the_holder(actor, entity)


def require_attempt(actor: Actor, entity: Entity, attempt: object, about: str) -> None:
    """Refuse an agent that does not work on the entity now, with its current attempt.

    Others need no attempt, but one that they send must be current.
    """
    is_agent = actor.kind is Kind.AGENT
    if attempt != entity.attempt and (attempt is not None or is_agent):
        raise LeaseLost(about, [lease_lost_reason(entity, attempt)], **entity.current_facts())
    require_own(actor, entity)
    if is_agent and entity.state not in entity.flow.renewed_in:
        raise LeaseLost(about, [lease_lost_reason(entity, attempt)], **entity.current_facts())


def _not_the_holder(actor: Actor, entity: Entity) -> NotTheHolder:
    problem = f"is held by {entity.holder}" if entity.holder else "has no holder"
    return NotTheHolder(f"{entity} {problem}, not by {actor.name}", holder=entity.holder, **entity.current_facts())


def require_independence(actor: Actor, entity: Entity) -> None:
    """Refuse an integrator where executors do its work, and where its account did the work that it would judge."""
    if actor.kind is not Kind.INTEGRATOR:
        return
    flow = entity.flow
    if is_done_by_executors(flow):
        raise PermissionDenied(f"{flow.entity_type} rows are moved by the executors only", required=[Kind.SYSTEM])
    judged = entity.judged_work()
    if actor.identity in judged or actor.owner in accounts_of(judged):
        raise SamePerson(f"{actor.name} belongs to an account that did the work of {entity}", required="other_account")
