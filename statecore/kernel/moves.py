"""A move is a django-fsm transition that says who may fire it, what it needs, and how loud it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from django_fsm import TransitionNotAllowed, transition

from .actors import Actor, Kind
from .params import Param, params_of
from .refusals import Unmet

if TYPE_CHECKING:
    from .entity import Entity


class Severity(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class MoveKind(StrEnum):
    NORMAL = "normal"  # somebody outside may ask for it
    PROPAGATED = "propagated"  # the system alone does, because something else has changed


@dataclass(slots=True)
class Facts:
    """What is known while a move is made: when, by whom, why, and the trigger's own fields."""

    at: datetime
    actor: Actor
    params: Mapping[str, Any]
    reason: str
    # The declaration the fields were last read by, so that a batch reads them once.
    read_by: tuple[Param, ...] | None = None


Guard = Callable[[Any, Facts], Unmet | None]


def unmet_among(guards: Iterable[Guard], entity: Entity, facts: Facts) -> list[Unmet]:
    return [reason for guard in guards if (reason := guard(entity, facts)) is not None]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    name: str
    trigger: str
    sources: tuple[str, ...]
    target: str
    actors: frozenset[Kind]
    guards: tuple[Guard, ...]
    severity: Severity
    kind: MoveKind
    params: tuple[Param, ...]
    leaves_final: str | None
    deprecated: str | None
    method: Callable[..., None]

    def unmet(self, entity: Entity, facts: Facts) -> list[Unmet]:
        return unmet_among(self.guards, entity, facts)

    def make(self, entity: Entity, facts: Facts) -> list[Unmet]:
        """Fire the django-fsm method; the reasons it refused, empty when the move was made."""
        entity.facts, entity.unmet = facts, []
        try:
            self.method(entity, **facts.params)
        except TransitionNotAllowed:
            if not entity.unmet:  # refused for its state, not by a guard: the caller should have looked
                raise
        return entity.unmet


def move(
    trigger: str,
    *,
    source: str | Iterable[str],
    target: str,
    by: Iterable[Kind],
    guards: Iterable[Guard] = (),
    severity: Severity = Severity.INFO,
    kind: MoveKind = MoveKind.NORMAL,
    leaves_final: str | None = None,
    deprecated: str | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare one move. `leaves_final` names the decision that lets it out of a final state."""
    # Sorted: sources may be given as a set, and what is derived from them must not depend on its order.
    sources = (str(source),) if isinstance(source, str) else tuple(sorted(map(str, source)))
    actors, guards = frozenset(by), tuple(guards)

    def declare(method: Callable[..., None]) -> Callable[..., None]:
        def guards_hold(entity: Any) -> bool:
            entity.unmet = made.unmet(entity, entity.facts)
            return not entity.unmet

        protected: Any = transition(
            field="state",
            source=list(sources),
            target=target,
            conditions=[guards_hold] if guards else [],
        )(method)
        made = Move(
            method.__name__, trigger, sources, str(target), actors, guards, severity, kind,
            params_of(method), leaves_final, deprecated, protected,
        )  # fmt: skip
        protected.move = made
        return cast("Callable[..., None]", protected)

    return declare
