"""The chain of waits from an entity to the root cause, link by link."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import prefetch_related_objects

from ...kernel import phrasing
from ...kernel.clock import rfc3339
from ...kernel.entity import Entity
from ...storage.links import share_lookups
from .causes import describe_final, find_cause
from .task_chain import find_chain_end
from .visibility import VisibleMachines
from .waits import Detail, SharedCause, Wait

T = TypeVar("T")

SKIP_AFTER = 25  # links, after which a chain of tasks is skipped to its end
MAX_LINKS = 100
SHOWN_AT_EACH_END = 3  # links that a sentence contains


@dataclass(frozen=True, slots=True)
class Link:
    """An entity of the chain and what it waits for; the detail of the last one is the root cause."""

    entity: Entity
    detail: str
    others: int = 0
    skipped: int = 0  # entities between this one and the next link
    about: str = ""  # another machine that the detail contains information about
    shared: SharedCause | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "entity_type": self.entity.flow.entity_type,
            "entity_id": self.entity.pk,
            "state": self.entity.state,
            "since": rfc3339(self.entity.state_entered_at),
            "detail": self.detail,
            "others": self.others,
        }


def find_chain(entity: Entity, at: datetime, visible: VisibleMachines = None) -> list[Link]:
    """Returns the chain of an entity that is not final.

    It ends at the root cause, at a cycle, at an entity that the user may not see, or after MAX_LINKS links.
    """
    return find_chains([entity], at, visible)[0]


def find_chains(entities: Iterable[Entity], at: datetime, visible: VisibleMachines = None) -> list[list[Link]]:
    """Returns the chains of many entities. They are walked together, one link at a time, to share their queries."""
    walks = [ChainWalk(entity) for entity in entities]
    unfinished = walks
    while unfinished:
        for group in group_by_machine(unfinished, lambda walk: walk.entity):
            load_together([walk.entity for walk in group])
            for walk in group:
                walk.step(at, visible)
        unfinished = [walk for walk in unfinished if not walk.is_done]
    return [walk.links for walk in walks]


def group_by_machine(things: Iterable[T], get_entity: Callable[[T], Entity]) -> Iterable[list[T]]:
    groups: dict[type[Entity], list[T]] = {}
    for thing in things:
        groups.setdefault(type(get_entity(thing)), []).append(thing)
    return groups.values()


def load_together(entities: list[Entity]) -> None:
    """Loads the related rows of entities of one machine, and lets the entities share all further lookups."""
    keys = [field.name for field in entities[0]._meta.concrete_fields if field.is_relation]
    prefetch_related_objects(entities, *keys)
    share_lookups(entities)


class ChainWalk:
    def __init__(self, entity: Entity) -> None:
        self.entity, self.is_done = entity, False
        self.links: list[Link] = []
        self.visited: set[tuple[str, str]] = set()

    def step(self, at: datetime, visible: VisibleMachines) -> None:
        cause = self._find_cause(at, visible)
        self.visited.add(_get_key(self.entity))
        if isinstance(cause, Wait):
            detail = f"{cause.relation} {_format_name(cause.entity, self.entity)}"
            self.links.append(Link(self.entity, detail, cause.others, cause.skipped))
            self.entity = cause.entity
        else:
            self.links.append(Link(self.entity, cause.text, about=cause.about, shared=cause.shared))
            self.is_done = True

    def _find_cause(self, at: datetime, visible: VisibleMachines) -> Wait | Detail:
        if _get_key(self.entity) in self.visited:
            return Detail("a circular dependency")
        if self.links and self.entity.flow.is_final(self.entity.state):
            return Detail(describe_final(self.entity, at))
        if len(self.links) >= MAX_LINKS:
            return Detail("and so on")
        return self._skip_tasks() or find_cause(self.entity, at, visible)

    def _skip_tasks(self) -> Wait | None:
        """Returns the wait for the end of a long chain of tasks, or None if there is no such chain.

        A step takes several queries, and a plan may be a chain of thousands of tasks.
        """
        end = find_chain_end(self.entity) if len(self.links) >= SKIP_AFTER else None
        if end is None or not end.skipped:
            return None
        return Wait(f"waits through {end.skipped} more tasks for", end.task, skipped=end.skipped)


def format_sentence(links: list[Link]) -> str:
    """Returns a sentence: `task t9 waits for t4, which waits for workstream w1, which failed: needs a decision`."""
    details = [links[0].detail, *(_format_clause(link.detail) for link in links[1:])]
    if len(links) > 2 * SHOWN_AT_EACH_END:
        between = links[SHOWN_AT_EACH_END:-SHOWN_AT_EACH_END]
        omitted = len(between) + sum(link.skipped for link in between)
        resumed = links[-SHOWN_AT_EACH_END].detail
        details[SHOWN_AT_EACH_END : 1 - SHOWN_AT_EACH_END] = [f"and {omitted} more", resumed]
    sentence = ", ".join(details)
    return f"{phrasing.describe_entity(links[0].entity)} {sentence}" if len(links) > 1 else sentence


def _format_clause(detail: str) -> str:
    return f"which {detail}" if detail.startswith("waits for ") else detail


def _get_key(entity: Entity) -> tuple[str, str]:
    return entity.flow.entity_type, entity.pk


def _format_name(entity: Entity, seen_from: Entity) -> str:
    """Returns the name of an entity, without its type if the other entity has the same type."""
    return str(entity.pk) if type(entity) is type(seen_from) else phrasing.describe_entity(entity)
