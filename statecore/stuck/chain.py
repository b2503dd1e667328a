"""From an entity down to the root of why it does not move, link by link."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..kernel.clock import rfc3339
from ..kernel.entity import Entity
from . import words
from .causes import Wait, cause_of, what_became_of
from .sight import Sight

DEPTH = 25


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
    """Of a live entity; at most DEPTH links, never round in a circle, and no further than the reader sees."""
    links: list[Link] = []
    seen = {_key(entity)}
    cause = cause_of(entity, at, sight)
    while isinstance(cause, Wait):
        links.append(Link(entity, f"{cause.relation} {_called(cause.entity, entity)}", cause.others))
        entity = cause.entity
        cause = _next(entity, at, sight, seen, len(links))
    return [*links, Link(entity, cause)]


def sentence(links: list[Link]) -> str:
    """`task t9 waits for t4, blocked by gate UNIT, failed 12 min ago with exit 1`."""
    details = ", ".join(link.detail for link in links)
    return f"{words.named(links[0].entity)} {details}" if len(links) > 1 else details


def _next(entity: Entity, at: datetime, sight: Sight, seen: set[tuple[str, str]], depth: int) -> Wait | str:
    if _key(entity) in seen:
        return "which waits for itself in the end"
    seen.add(_key(entity))
    if entity.flow.is_final(entity.state):
        return what_became_of(entity, at)
    return "and so on" if depth >= DEPTH else cause_of(entity, at, sight)


def _key(entity: Entity) -> tuple[str, str]:
    return entity.flow.entity_type, entity.pk


def _called(entity: Entity, by: Entity) -> str:
    """Among their own kind entities are called by their id alone."""
    return str(entity.pk) if type(entity) is type(by) else words.named(entity)
