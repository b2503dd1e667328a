"""Checks every transition out of an entity's state without firing it."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...kernel.actors import THE_SYSTEM, Actor, Kind
from ...kernel.entity import Entity
from ...kernel.refusals import AlreadyRetried, PermissionDenied, Refusal, Unmet
from ...kernel.transition import Facts, Guard, Transition
from ...transitions import rights
from .visibility import VisibleMachines, redact_unmet

_AN_OPERATOR = Actor("operator", Kind.OPERATOR, THE_SYSTEM.channel)


@dataclass(frozen=True, slots=True)
class TransitionCheck:
    """Whether a transition could be fired now, and the guards that refuse it.

    `needs` lists the fields that the caller must provide. Guards that read them are not checked before they are given.
    """

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
        return {
            "trigger": self.trigger,
            "to_state": self.to_state,
            "allowed": self.allowed,
            "kind": self.kind,
            "unmet": [unmet.as_dict() for unmet in self.unmet],
            "actors": [*self.actors],
            "needs": [*self.needs],
        }


def check_transitions(
    entity: Entity,
    at: datetime,
    actor: Actor | None = None,
    visible: VisibleMachines = None,
    *,
    by: Kind | None = None,
) -> list[TransitionCheck]:
    """Returns a check of each transition from the current state, for this actor or, without one, for any actor.

    With `by`, only the transitions that this kind of actor may fire are checked.
    """
    return [
        _check(transition, entity, at, actor, visible)
        for transition in entity.flow.transitions
        if entity.state in transition.sources and by in (None, *transition.actors)
    ]


def _check(
    transition: Transition, entity: Entity, at: datetime, actor: Actor | None, visible: VisibleMachines
) -> TransitionCheck:
    needs = tuple(param.name for param in transition.params if param.required)
    given = UnknownFields({"attempt": entity.attempt}, needs)
    facts = Facts(max(at, entity.updated_at), actor or _choose_actor(transition), given, "")
    unmet = [*_check_permission(transition, entity, actor), *_check_successor(entity)]
    unmet += [reason for guard in transition.guards if (reason := _check_guard(guard, entity, facts))]
    return TransitionCheck(
        transition.trigger,
        transition.target,
        str(transition.kind),
        tuple(sorted(transition.actors)),
        needs,
        tuple(redact_unmet(reason, entity, visible) for reason in unmet),
    )


class _FieldMissing(Exception):
    """A guard reads a field that only the caller can provide."""


class UnknownFields(UserDict[str, Any]):
    """The fields of a trigger that has not been fired: required ones are missing, others have their defaults."""

    def __init__(self, known: dict[str, Any], needs: tuple[str, ...]) -> None:
        super().__init__(known)
        self.needs = needs

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise _FieldMissing(name)
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.needs else self.data.get(name, default)


def _check_guard(guard: Guard, entity: Entity, facts: Facts) -> Unmet | None:
    try:
        return guard(entity, facts)
    except _FieldMissing:
        return None


def _choose_actor(transition: Transition) -> Actor:
    """Returns the actor to check with: an operator if the system may not fire the transition, else the system."""
    is_for_operators = Kind.OPERATOR in transition.actors and Kind.SYSTEM not in transition.actors
    return _AN_OPERATOR if is_for_operators else THE_SYSTEM


def _check_permission(transition: Transition, entity: Entity, actor: Actor | None) -> list[Unmet]:
    if actor is None:
        return []
    if actor.kind not in transition.actors:
        return [Unmet(PermissionDenied.code, f"{' or '.join(sorted(transition.actors))} only")]
    try:
        rights.require_change(actor, entity, entity.attempt)
    except Refusal as refusal:
        return [Unmet(refusal.code, refusal.detail)]
    return []


def _check_successor(entity: Entity) -> list[Unmet]:
    if not entity.flow.is_final(entity.state):
        return []
    successor = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    return [Unmet(AlreadyRetried.code, f"already retried as {successor}", successor)] if successor else []


def build_system_facts(at: datetime) -> Facts:
    """Returns the facts for checking a guard without a trigger."""
    return Facts(at, THE_SYSTEM, {}, "")
