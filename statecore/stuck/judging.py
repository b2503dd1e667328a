"""Every move out of a state, judged without making it."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..kernel.entity import Entity
from ..kernel.moves import Facts, Guard, Move
from ..kernel.refusals import AlreadyRetried, PermissionDenied, Unmet
from .sight import Sight, told


@dataclass(frozen=True, slots=True)
class Judged:
    """`needs` names the fields a caller has to give; the guards that read them are judged when they are given."""

    trigger: str
    to_state: str
    kind: str
    actors: tuple[str, ...]
    needs: tuple[str, ...]
    unmet: tuple[Unmet, ...]

    @property
    def allowed(self) -> bool:
        return not self.unmet

    def as_dict(self) -> dict[str, Any]:
        plain = {"trigger": self.trigger, "to_state": self.to_state, "allowed": self.allowed, "kind": self.kind}
        return {
            **plain,
            "unmet": [unmet.as_dict() for unmet in self.unmet],
            "actors": [*self.actors],
            "needs": [*self.needs],
        }


def judged_moves(
    entity: Entity, at: datetime, actor: Actor | None = None, sight: Sight = None, *, by: Kind | None = None
) -> list[Judged]:
    """For this actor, or for whoever may fire each of them; told to who sees so much. With `by`, only theirs."""
    moves = (move for move in entity.flow.moves if entity.state in move.sources and by in (None, *move.actors))
    return [_judged(move, entity, at, actor, sight) for move in moves]


def _judged(move: Move, entity: Entity, at: datetime, actor: Actor | None, sight: Sight) -> Judged:
    needs = tuple(param.name for param in move.params if param.required)
    given = Asked({"attempt": entity.attempt}, needs)
    facts = Facts(max(at, entity.updated_at), actor or _who_may(move), given, "")
    unmet = [*_rights(move, entity, actor), *_succession(move, entity)]
    unmet += [reason for guard in move.guards if (reason := _asked(guard, entity, facts))]
    actors = tuple(sorted(move.actors))
    may_be_told = tuple(told(reason, entity, sight) for reason in unmet)
    return Judged(move.trigger, move.target, str(move.kind), actors, needs, may_be_told)


class _FieldMissing(Exception):
    """A guard asks for something that only the caller of the move can say."""


class Asked(UserDict[str, Any]):
    """The fields of a trigger that nobody has fired: required ones are missing, the others have their defaults."""

    def __init__(self, known: dict[str, Any], needs: tuple[str, ...]) -> None:
        super().__init__(known)
        self.needs = needs

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise _FieldMissing(name)
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.needs else self.data.get(name, default)


def _asked(guard: Guard, entity: Entity, facts: Facts) -> Unmet | None:
    try:
        return guard(entity, facts)
    except _FieldMissing:
        return None


def _who_may(move: Move) -> Actor:
    """The system, unless only an operator may: some guards let an operator through."""
    return THE_SYSTEM if Kind.OPERATOR not in move.actors or Kind.SYSTEM in move.actors else _AN_OPERATOR


_AN_OPERATOR = Actor("operator", Kind.OPERATOR, THE_SYSTEM.channel)


def _rights(move: Move, entity: Entity, actor: Actor | None) -> list[Unmet]:
    if actor is None:
        return []
    if actor.kind not in move.actors:
        return [Unmet(PermissionDenied.code, f"it takes {' or '.join(sorted(move.actors))}, not {actor.kind}")]
    if actor.kind is Kind.OPERATOR and not actor.holds(entity.flow.permission("operate")):
        return [Unmet(PermissionDenied.code, f"{actor.name} may not operate {entity.flow.entity_type} rows")]
    return []


def _succession(move: Move, entity: Entity) -> list[Unmet]:
    if not entity.flow.is_final(entity.state):
        return []
    successor = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    return [Unmet(AlreadyRetried.code, f"it was retried as {successor}", successor)] if successor else []


def nobody_in_particular(at: datetime) -> Facts:
    """What a guard is asked with when nobody has fired anything."""
    return Facts(at, THE_SYSTEM, {}, "")
