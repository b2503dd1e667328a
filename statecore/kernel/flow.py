"""The declaration of one machine, bound to its model; everything else about it is derived from here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings

from .fields import column
from .moves import Guard, Move

if TYPE_CHECKING:
    from .entity import Entity


@dataclass(frozen=True, slots=True)
class Rest:
    """A state an entity may stay in for ever, and why that is all right."""

    because: str


Timing = timedelta | Rest


@dataclass(frozen=True, slots=True)
class Succession:
    """What a successor takes over from a final entity.

    Every plain field carries over but those in `leaves_behind`; `guards` must hold for a retry; each of `children`
    that did not end in its machine's `done` is retried along with it; the unfinished rows of `followers` (reverse
    relations) point to the successor from then on, as do all links.

    `waits_in` is about what the machine waits for itself: link → the states in which it does. What is retried later
    concerns it no more. A link that is not named is waited for until the end.
    """

    leaves_behind: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    children: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()
    waits_in: Mapping[str, Iterable[str]] = field(default_factory=dict)


@dataclass(eq=False)
class Flow:
    """What a machine file states about itself besides its states, fields and moves."""

    version: str
    collection: str
    final: Iterable[str]
    timing: Mapping[str, Timing]
    prefix: str = ""
    done: Iterable[str] = ()
    succession: Succession = field(default_factory=Succession)
    repeats_are_noops: bool = False
    # State → the field its deadline runs from, where that is not the time the state was entered.
    measured_from: Mapping[str, str] = field(default_factory=dict)
    # Field → the states in which it may still change; held by the database.
    frozen: Mapping[str, Iterable[str]] = field(default_factory=dict)
    # Numbers that never go down; held by the database.
    rising: Iterable[str] = ()
    event_noun: str = ""

    model: type[Entity] = field(init=False)
    entity_type: str = field(init=False)
    initial: str = field(init=False)
    states: tuple[str, ...] = field(init=False)
    moves: tuple[Move, ...] = field(init=False)

    def bind(self, model: type[Entity]) -> None:
        state = column(model, "state")
        self.model = model
        self.entity_type = re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()
        self.prefix = self.prefix or self.entity_type
        self.event_noun = self.event_noun or self.entity_type
        self.initial = state.default
        self.states = tuple(name for name, _label in state.choices or ())
        self.rising = ("attempt", *self.rising)
        self.frozen = {"created_at": (), "retry_of_id": (), **self.frozen}
        self.final = frozenset(map(str, self.final))
        self.done = frozenset(map(str, self.done))
        self.timing = {str(name): timing for name, timing in self.timing.items()}
        self.moves = tuple(attribute.move for attribute in vars(model).values() if hasattr(attribute, "move"))
        self._open = self._index()

    def _index(self) -> dict[tuple[str, str], tuple[Move, ...]]:
        found: dict[tuple[str, str], tuple[Move, ...]] = {}
        for move in self.moves:
            for source in move.sources:
                found[source, move.trigger] = (*found.get((source, move.trigger), ()), move)
        return found

    @property
    def triggers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(move.trigger for move in self.moves))

    def is_final(self, state: str) -> bool:
        return state in self.final

    def waits_for(self, link: str) -> set[str]:
        """The states in which what stands at the other end of a link is still waited for."""
        return set(map(str, self.succession.waits_in.get(link, set(self.states) - set(self.final))))

    def open_moves(self, state: str, trigger: str) -> tuple[Move, ...]:
        return self._open.get((state, trigger), ())

    def allowed(self, state: str) -> list[str]:
        return list(dict.fromkeys(move.trigger for move in self.moves if state in move.sources))

    def final_exits(self) -> set[tuple[str, str]]:
        return {(source, move.target) for move in self.moves for source in move.sources if source in self.final}

    def may_leave(self, state: str, target: str) -> bool:
        """Whether a state may be left for another at all, by force or not: a final one has its declared exits only."""
        return not self.is_final(state) or (state, target) in self.final_exits()

    def deadline(self, state: str) -> timedelta | None:
        """How long an entity may stay in a state: the declaration, unless a setting says otherwise."""
        seconds = settings.STATECORE_DEADLINES.get(f"{self.entity_type}.{state}")
        if seconds is not None:
            return timedelta(seconds=seconds)
        timing = self.timing.get(state)
        return timing if isinstance(timing, timedelta) else None

    def permission(self, action: str) -> str:
        return f"{self.model._meta.app_label}.{action}_{self.model._meta.model_name}"

    def describe(self) -> dict[str, Any]:
        """The whole declaration, as it is written; settings do not change it."""
        return {
            "entity_type": self.entity_type,
            "version": self.version,
            "collection": self.collection,
            "initial": self.initial,
            "states": [self._describe_state(state) for state in self.states],
            "moves": [describe_move(move) for move in self.moves],
        }

    def _describe_state(self, state: str) -> dict[str, Any]:
        timing = self.timing.get(state)
        return {
            "name": state,
            "terminal": self.is_final(state),
            "deadline_seconds": timing.total_seconds() if isinstance(timing, timedelta) else None,
            "may_rest": timing.because if isinstance(timing, Rest) else None,
        }


def describe_move(move: Move) -> dict[str, Any]:
    return {
        "trigger": move.trigger,
        "sources": list(move.sources),
        "target": move.target,
        "kind": str(move.kind),
        "guards": [guard.__name__ for guard in move.guards],
        "actors": sorted(move.actors),
        "severity": str(move.severity),
        "fields": [
            {
                "name": param.name,
                "type": param.json_type,
                "required": param.required,
                "nullable": param.nullable,
            }
            for param in move.params
        ],
        "leaves_final": move.leaves_final,
        "deprecated": move.deprecated,
    }
