"""Whether an actor may change an entity."""

from __future__ import annotations

from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.refusals import PermissionDenied


def require(actor: Actor, flow: Flow, action: str) -> None:
    """Require the machine's permission of an operator; agents and the system are limited by each transition."""
    if actor.kind is Kind.OPERATOR and not actor.has_permission(permission := flow.permission(action)):
        raise PermissionDenied(f"{actor.name} may not {action} {flow.entity_type} rows", required=permission)


def require_holder(actor: Actor, entity: Entity) -> None:
    """Refuse an agent that reports on an entity held by another agent; an entity without a holder is open to all."""
    holder = entity.holder()
    if actor.kind is Kind.AGENT and holder and holder != actor.name:
        raise PermissionDenied(f"{entity} is held by another agent", required="holder")


def require_own(actor: Actor, entity: Entity) -> None:
    """Refuse an agent that edits an entity it does not hold, such as the time-out of a gate."""
    if actor.kind is Kind.AGENT and entity.holder() != actor.name:
        raise PermissionDenied(f"{entity} is not held by {actor.name}", required="holder")
