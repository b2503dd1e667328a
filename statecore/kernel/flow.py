"""The declaration of a machine, bound to its model; everything else about the machine is derived from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

from django.conf import settings

from .actors import Kind
from .fields import column
from .limits import Limit
from .transition import ERRORS, Guard, Transition

if TYPE_CHECKING:
    from .entity import Entity


@dataclass(frozen=True, slots=True)
class Rest:
    """Declares that an entity may stay in a state indefinitely, and why."""

    because: str


Timing = timedelta | Rest


@dataclass(frozen=True, slots=True)
class Succession:
    """How a retry creates the successor of a final entity.

    `leaves_behind`: the editable fields that are not copied.
    `guards`: what must hold for a retry.
    `children`: reverse relations; their rows that are not done are retried too.
    `followers`: reverse relations; their unfinished rows are redirected to the successor, as are all links.
    `waits_in`: link → the states in which the entity waits for the entities it links to. In other states its links
    are not redirected to successors. The default is every state that is not final.
    """

    leaves_behind: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    children: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()
    waits_in: Mapping[str, Iterable[str]] = field(default_factory=dict)


@dataclass(eq=False)
class Flow:
    """The properties of a machine other than its states, fields and transitions."""

    version: str
    collection: str
    final: Iterable[str]
    timing: Mapping[str, Timing]
    prefix: str = ""
    done: Iterable[str] = ()
    succession: Succession = field(default_factory=Succession)
    repeats_are_noops: bool = False
    # States in which the holder sends heartbeats: their deadline is measured from the last one, so a holder that renews
    # keeps the entity. For machines that extend HeartbeatEntity.
    renewed_in: Iterable[str] = ()
    # States in which changes of its parts are progress, so that its own time in the state means nothing.
    moves_with_parts: Iterable[str] = ()
    # Field → the states in which it may change; enforced by database triggers.
    frozen: Mapping[str, Iterable[str]] = field(default_factory=dict)
    # States in which no agent holds the entity: an agent that takes it out of them becomes its holder. In all other
    # states only the holder may report. Without any, the agent that creates the entity holds it.
    free_in: Iterable[str] = ()
    # The setting that switches on the executors of this machine; while it is set, integrators may not do their work.
    executors: str = ""
    # The kinds of actor that may create an entity by itself. A plan may contain it in any case.
    created_by: Iterable[Kind] = frozenset(Kind)
    # The fields that an agent may set when it creates an entity, by itself or in a plan, each with its limit; all
    # fields if this is None. The rest is set by operators.
    agents_set: Mapping[str, Limit] | None = None
    # The fields that an agent may change of an entity that it holds.
    agents_change: Iterable[str] = ("metadata",)
    # State → why an override cannot enter it: the state describes something outside that must have happened.
    never_forced: Mapping[str, str] = field(default_factory=dict)
    # The number of retries, which an override may set back to zero.
    retry_counter: str = ""
    # Numbers that never decrease; enforced by database triggers.
    monotonic: Iterable[str] = ()
    event_noun: str = ""
    # Trigger → the name of its events, if it is not `{event_noun}_{to_state}`.
    event_names: Mapping[str, str] = field(default_factory=dict)
    # States that count as failures although a transition enters them with a warning only. States that are entered with
    # an error count without this.
    failures: Iterable[str] = ()

    model: type[Entity] = field(init=False)
    entity_type: str = field(init=False)
    initial: str = field(init=False)
    states: tuple[str, ...] = field(init=False)
    transitions: tuple[Transition, ...] = field(init=False)
    # The transitions that a kind of actor may fire, by (state, trigger, kind).
    open_to: dict[tuple[str, str, Kind], tuple[Transition, ...]] = field(init=False)
    # The states in which an entity is lost if its holder stops sending heartbeats.
    lost_without_heartbeats: frozenset[str] = field(init=False)

    def bind(self, model: type[Entity]) -> None:
        state = column(model, "state")
        self.model = model
        self.entity_type = re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()
        self.prefix = self.prefix or self.entity_type
        self.event_noun = self.event_noun or self.entity_type
        self.initial = state.default
        self.states = tuple(name for name, _label in state.choices or ())
        self.monotonic = ("attempt", *self.monotonic)
        self.frozen = {"created_at": (), "retry_of_id": (), **self.frozen}
        self.final = frozenset(map(str, self.final))
        self.done = frozenset(map(str, self.done))
        self.free_in = frozenset(map(str, self.free_in))
        self.renewed_in = frozenset(map(str, self.renewed_in))
        self.moves_with_parts = frozenset(map(str, self.moves_with_parts))
        self.timing = {str(name): timing for name, timing in self.timing.items()}
        self.lost_without_heartbeats = frozenset(
            state for state in self.renewed_in if isinstance(self.timing.get(state), timedelta)
        )
        self.never_forced = {str(name): why for name, why in self.never_forced.items()}
        declared = (getattr(method, "declaration", None) for method in vars(model).values())
        self.transitions = tuple(found for found in declared if isinstance(found, Transition))
        self.failures = frozenset(map(str, self.failures)) | self._states_entered_with_errors()
        self.open_to = {}
        for transition in self.transitions:
            for key in product(transition.sources, [transition.trigger], transition.actors):
                self.open_to[key] = (*self.open_to.get(key, ()), transition)

    def _states_entered_with_errors(self) -> set[str]:
        entered = {state: {each.severity for each in self.transitions if each.target == state} for state in self.states}
        return {state for state, severities in entered.items() if severities and severities <= ERRORS}

    @property
    def triggers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(transition.trigger for transition in self.transitions))

    @property
    def live(self) -> tuple[str, ...]:
        """The states that are not final, in the order of declaration."""
        return tuple(state for state in self.states if state not in self.final)

    def is_final(self, state: str) -> bool:
        return state in self.final

    def waits_for(self, link: str) -> set[str]:
        """Returns the states in which an entity waits for the entities at the other end of a link."""
        return set(map(str, self.succession.waits_in.get(link, set(self.states) - set(self.final))))

    def open_transitions(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """Returns the transitions of this trigger from a state, whatever actor may fire them."""
        return tuple(each for each in self.transitions if each.trigger == trigger and state in each.sources)

    def allowed(self, state: str) -> list[str]:
        return list(dict.fromkeys(transition.trigger for transition in self.transitions if state in transition.sources))

    def final_exits(self) -> set[tuple[str, str]]:
        return {
            (source, transition.target)
            for transition in self.transitions
            for source in transition.sources
            if source in self.final
        }

    def may_leave(self, state: str, target: str) -> bool:
        """Whether a final state may be left for another: it has only its declared exits."""
        return not self.is_final(state) or (state, target) in self.final_exits()

    def may_force(self, state: str, target: str) -> bool:
        """Whether an override may change one state to another."""
        return target not in self.never_forced and self.may_leave(state, target)

    def deadline(self, state: str) -> timedelta | None:
        """Returns how long an entity may stay in a state; the setting STATECORE_DEADLINES overrides the declaration."""
        seconds = settings.STATECORE_DEADLINES.get(f"{self.entity_type}.{state}")
        if seconds is not None:
            return timedelta(seconds=seconds)
        timing = self.timing.get(state)
        return timing if isinstance(timing, timedelta) else None

    def clock_field(self, state: str) -> str:
        """Returns the column from which the deadline of a state is measured."""
        return "last_heartbeat" if state in self.renewed_in else "state_entered_at"

    def agent_error(self, name: str, value: Any) -> str | None:
        """Returns why an agent may not set a field to a value, or None."""
        if self.agents_set is None:
            return None
        limit = self.agents_set.get(name)
        return "is set by operators." if limit is None else limit.error(value)

    def may_be_waived(self) -> bool:
        return "waive" in self.model._meta.default_permissions

    def permission(self, action: str) -> str:
        return f"{self.model._meta.app_label}.{action}_{self.model._meta.model_name}"

    def describe(self) -> dict[str, Any]:
        """Returns the declaration as written, regardless of settings."""
        return {
            "entity_type": self.entity_type,
            "version": self.version,
            "collection": self.collection,
            "initial": self.initial,
            "created_by": sorted(self.created_by),
            "agents_set": self.agents_set and {name: limit.describe() for name, limit in self.agents_set.items()},
            "states": [self._describe_state(state) for state in self.states],
            "transitions": [describe_transition(transition) for transition in self.transitions],
        }

    def _describe_state(self, state: str) -> dict[str, Any]:
        timing = self.timing.get(state)
        return {
            "name": state,
            "terminal": self.is_final(state),
            "deadline_seconds": timing.total_seconds() if isinstance(timing, timedelta) else None,
            "may_rest": timing.because if isinstance(timing, Rest) else None,
            "has_holder": state not in self.free_in,
            **({"takes_heartbeats": state in self.renewed_in} if self.renewed_in else {}),
        }


def describe_transition(transition: Transition) -> dict[str, Any]:
    return {
        "trigger": transition.trigger,
        "sources": list(transition.sources),
        "target": transition.target,
        "kind": str(transition.kind),
        "guards": [guard.__name__ for guard in transition.guards],
        "actors": sorted(transition.actors),
        "severity": str(transition.severity),
        "fields": [
            {
                "name": param.name,
                "type": param.json_type,
                "required": param.required,
                "nullable": param.nullable,
            }
            for param in transition.params
        ],
        "leaves_final": transition.leaves_final,
        "deprecated": transition.deprecated,
    }
