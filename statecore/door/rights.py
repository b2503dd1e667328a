"""Whether this actor may do this to that machine."""

from __future__ import annotations

from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.moves import Move
from ..kernel.refusals import PermissionDenied


def require(actor: Actor, flow: Flow, action: str) -> None:
    """An operator needs the machine's permission; agents and the system are held by each move's list of actors."""
    if actor.kind is Kind.OPERATOR and not actor.holds(permission := flow.permission(action)):
        raise PermissionDenied(f"{actor.name} may not {action} {flow.entity_type} rows", required=permission)


def must_hold(actor: Actor, entity: Entity) -> None:
    """An agent speaks for what it holds itself; what nobody in particular holds is open to all."""
    holder = entity.holder()
    if actor.kind is Kind.AGENT and holder and holder != actor.name:
        raise PermissionDenied(f"{entity} is held by another agent", required="holder")


def must_be_its_own(actor: Actor, entity: Entity) -> None:
    """An agent changes the fields of what it holds and of nothing else: a gate's time-out is not for it to set."""
    if actor.kind is Kind.AGENT and entity.holder() != actor.name:
        raise PermissionDenied(f"{entity} is not held by {actor.name}", required="holder")


def may_fire(actor: Actor, flow: Flow, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    require(actor, flow, "operate")
    mine = tuple(move for move in moves if actor.kind in move.actors)
    if not mine:
        required = sorted({kind for move in moves for kind in move.actors})
        raise PermissionDenied(
            f"{moves[0].trigger} takes {' or '.join(required)}, not {actor.kind}",
            required=required,
        )
    return mine
