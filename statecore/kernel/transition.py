"""Transitions: a django-fsm transition plus its trigger, its actors, its guards and the fields it accepts."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin, get_type_hints

from django_fsm import TransitionNotAllowed
from django_fsm import transition as fsm_transition

from .actors import Actor, Kind
from .clock import format_utc
from .refusals import Invalid, LeaseLost, Unmet
from .validation import json_error, text_error

if TYPE_CHECKING:
    from .entity import Entity

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
JSON_NAMES = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    dict: "object",
    list: "array",
    Any: "any",
}


class Severity(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


ERRORS = frozenset({Severity.ERROR, Severity.CRITICAL})


class TransitionKind(StrEnum):
    NORMAL = "normal"  # fired by a caller
    PROPAGATED = "propagated"  # fired only by the system, as a consequence of another change


@dataclass(slots=True)
class Facts:
    """What guards and transition methods know about a request: time, actor, reason and the trigger's fields."""

    at: datetime
    actor: Actor
    params: Mapping[str, Any]
    reason: str
    # Guards that a reaction has established with a query, so that they are not evaluated again.
    known: Collection[Guard] = ()
    # The declaration that `params` were last validated against, so that a batch validates them once.
    validated_for: tuple[Param, ...] | None = None


# A guard returns why it refuses, or None if it holds.
Guard = Callable[[Any, Facts], Unmet | None]


def evaluate_guards(guards: Iterable[Guard], entity: Entity, facts: Facts) -> list[Unmet]:
    return [reason for guard in guards if guard not in facts.known and (reason := guard(entity, facts)) is not None]


def the_attempt_is_current(entity: Any, facts: Facts) -> Unmet | None:
    """Refuses a late report: once an entity has been claimed, an agent must send the attempt it was given."""
    attempt = facts.params.get("attempt")
    is_optional = facts.actor.kind is not Kind.AGENT or entity.attempt == 0
    if attempt == entity.attempt or (attempt is None and is_optional):
        return None
    return lease_lost_reason(entity, attempt)


def lease_lost_reason(entity: Any, attempt: object) -> Unmet:
    problem = "no attempt was given" if attempt is None else f"attempt {attempt} has lost its lease"
    current = f"it is {entity.state}" if attempt == entity.attempt else f"the current attempt is {entity.attempt}"
    return Unmet(LeaseLost.code, f"{problem}: {current}")


def future_time_error(name: str, facts: Facts) -> Unmet | None:
    """Returns why the optional field is not a time in the future, or None."""
    text = facts.params.get(name)
    if not text:
        return None
    try:
        moment: datetime | None = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        return Unmet("not_a_time", f"{name} must be a time with its zone, such as 2026-01-31T12:00:00Z")
    return None if moment > facts.at else Unmet("time_passed", f"{name} must be later than {format_utc(facts.at)}")


@dataclass(frozen=True, slots=True, eq=False)
class Transition:
    name: str
    trigger: str
    sources: tuple[str, ...]
    target: str
    actors: frozenset[Kind]
    guards: tuple[Guard, ...]
    severity: Severity
    kind: TransitionKind
    params: tuple[Param, ...]
    leaves_final: str | None
    deprecated: str | None
    method: Callable[..., None]

    def unmet(self, entity: Entity, facts: Facts) -> list[Unmet]:
        return evaluate_guards(self.guards, entity, facts)

    def apply(self, entity: Entity, facts: Facts) -> list[Unmet]:
        """Calls the django-fsm method and returns the unmet guards; the state changed if there are none.

        Raises TransitionNotAllowed if the entity is not in one of the sources.
        """
        entity.facts, entity.unmet = facts, []
        try:
            self.method(entity, **facts.params)
        except TransitionNotAllowed:
            if not entity.unmet:
                raise
        return entity.unmet


def transition(
    trigger: str,
    *,
    source: str | Iterable[str],
    target: str,
    by: Iterable[Kind],
    guards: Iterable[Guard] = (),
    severity: Severity = Severity.INFO,
    kind: TransitionKind = TransitionKind.NORMAL,
    leaves_final: str | None = None,
    deprecated: str | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declares a transition; the decorated method sets the fields that it changes besides the state.

    The method's parameters are the fields that the trigger accepts. `leaves_final` explains why the transition may
    leave a final state.
    """
    # Sorted, because `source` may be a set and the generated documents must not depend on its order.
    sources = (str(source),) if isinstance(source, str) else tuple(sorted(map(str, source)))
    actors, guards = frozenset(by), tuple(guards)

    def declare(method: Callable[..., None]) -> Callable[..., None]:
        def guards_hold(entity: Any) -> bool:
            entity.unmet = evaluate_guards(guards, entity, entity.facts)
            return not entity.unmet

        protected: Any = fsm_transition(
            field="state",
            source=list(sources),
            target=target,
            conditions=[guards_hold] if guards else [],
        )(method)
        declaration = Transition(
            method.__name__, trigger, sources, str(target), actors, guards, severity, kind,
            params_from_signature(method), leaves_final, deprecated, protected,
        )  # fmt: skip
        protected.declaration = declaration
        return cast("Callable[..., None]", protected)

    return declare


@dataclass(frozen=True, slots=True)
class Param:
    """A field that a trigger accepts."""

    name: str
    type: Any  # a Python type, or Any for any JSON
    nullable: bool
    required: bool

    @property
    def json_type(self) -> str:
        return JSON_NAMES[self.type]

    def error(self, value: object) -> str | None:
        """Returns why the value is not accepted, or None."""
        if self.type is Any:
            return json_error(value)
        if value is None:
            return None if self.nullable else "may not be null."
        # In Python a boolean is an integer; in JSON it is not, and an integer is a number.
        accepted = (int, float) if self.type is float else self.type
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.type is not bool):
            return f"must be of type {self.json_type}."
        if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
            return "must fit into 32 bits."
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number."
        if isinstance(value, str):
            return text_error(value)
        return json_error(value) if isinstance(value, dict | list) else None


def params_from_signature(method: Callable[..., Any]) -> tuple[Param, ...]:
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    return tuple(
        _param(parameter, hints[parameter.name])
        for parameter in list(signature.parameters.values())[1:]
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def _param(parameter: inspect.Parameter, hint: Any) -> Param:
    nullable = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if nullable:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    base = get_origin(hint) or hint
    if base not in JSON_NAMES:
        raise TypeError(f"{parameter.name}: a trigger's field cannot be a {hint!r}")
    return Param(parameter.name, base, nullable or base is Any, parameter.default is parameter.empty)


def validate_params(params: tuple[Param, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given fields; raises Invalid if one is unknown, missing or of the wrong type."""
    errors, unknown = {}, dict(given)
    for param in params:
        if param.name not in unknown:
            if param.required:
                errors[param.name] = ["is required."]
        elif error := param.error(unknown.pop(param.name)):
            errors[param.name] = [error]
    for name in unknown:
        errors[name] = ["is not a field of this trigger."]
    if errors:
        raise Invalid(errors)
    return dict(given)
