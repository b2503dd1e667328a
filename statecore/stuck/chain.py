"""From an entity down to the root of why it does not move, link by link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import prefetch_related_objects

from ..kernel.clock import rfc3339
from ..kernel.entity import Entity
from ..kernel.links import together
from . import words
from .causes import Wait, cause_of, what_became_of
from .line import end_of_line
from .sight import Sight

T = TypeVar("T")

DEPTH = 25  # links, after which a line is skipped
MOST = 100
ENDS = 3  # links of either end that a sentence tells
SPOKEN = 2 * ENDS


@dataclass(frozen=True, slots=True)
class Link:
    """One entity of the chain and what it waits for; the last one says what is the matter."""

    entity: Entity
    detail: str
    others: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "entity_type": self.entity.flow.entity_type,
            "entity_id": self.entity.pk,
            "state": self.entity.state,
            "since": rfc3339(self.entity.state_entered_at),
            "detail": self.detail,
            "others": self.others,
        }


def chain_of(entity: Entity, at: datetime, sight: Sight = None) -> list[Link]:
    """Of a live entity, down to the root in at most so many links; never round in a circle, and no further than the
    reader sees."""
    return chains_of([entity], at, sight)[0]


def chains_of(entities: Iterable[Entity], at: datetime, sight: Sight = None) -> list[list[Link]]:
    """Of many, a step at a time: what one of them looks up is looked up for all that have come as far."""
    ways = [Way(entity) for entity in entities]
    going = ways
    while going:
        for alike in by_machine(going, lambda way: way.entity):
            with beside([way.entity for way in alike]):
                for way in alike:
                    way.go_on(at, sight)
        going = [way for way in going if not way.is_over]
    return [way.links for way in ways]


def by_machine(things: Iterable[T], entity_of: Callable[[T], Entity]) -> Iterable[list[T]]:
    groups: dict[type[Entity], list[T]] = {}
    for thing in things:
        groups.setdefault(type(entity_of(thing)), []).append(thing)
    return groups.values()


@contextmanager
def beside(entities: list[Entity]) -> Iterator[None]:
    """Entities of one machine, looked at together, with what they belong to."""
    keys = [field.name for field in entities[0]._meta.concrete_fields if field.is_relation]
    prefetch_related_objects(entities, *keys)
    with together(entities):
        yield


class Way:
    """One chain, as far as it has come."""

    def __init__(self, entity: Entity) -> None:
        self.entity, self.is_over = entity, False
        self.links: list[Link] = []
        self.seen: set[tuple[str, str]] = set()

    def go_on(self, at: datetime, sight: Sight) -> None:
        cause = self._cause(at, sight)
        self.seen.add(_key(self.entity))
        if isinstance(cause, Wait):
            self.links.append(Link(self.entity, f"{cause.relation} {_called(cause.entity, self.entity)}", cause.others))
            self.entity = cause.entity
        else:
            self.links.append(Link(self.entity, cause))
            self.is_over = True

    def _cause(self, at: datetime, sight: Sight) -> Wait | str:
        if _key(self.entity) in self.seen:
            return "which waits for itself in the end"
        if self.links and self.entity.flow.is_final(self.entity.state):
            return what_became_of(self.entity, at)
        if len(self.links) >= MOST:
            return "and so on"
        return self._far_ahead() or cause_of(self.entity, at, sight)

    def _far_ahead(self) -> Wait | None:
        """A step takes several queries, and a plan may be a line of thousands."""
        end = end_of_line(self.entity) if len(self.links) >= DEPTH else None
        return Wait(f"waits through {end.skipped} more for", end.task) if end and end.skipped else None


def sentence(links: list[Link]) -> str:
    """`task t9 waits for t4, blocked by gate UNIT, failed 12 min ago with exit 1`."""
    spoken = [link.detail for link in links]
    if len(links) > SPOKEN:
        spoken[ENDS:-ENDS] = [f"and {len(links) - SPOKEN} more"]
    details = ", ".join(spoken)
    return f"{words.named(links[0].entity)} {details}" if len(links) > 1 else details


def _key(entity: Entity) -> tuple[str, str]:
    return entity.flow.entity_type, entity.pk


def _called(entity: Entity, by: Entity) -> str:
    """Among their own kind entities are called by their id alone."""
    return str(entity.pk) if type(entity) is type(by) else words.named(entity)
