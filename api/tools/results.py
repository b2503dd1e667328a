"""What the tools return, as the schemas that clients check. Results may have further members."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Result(msgspec.Struct, kw_only=True):
    """The base of every result."""


class Entity(Result):
    id: str
    state: str
    version: int


class EntityList(Result):
    results: list[Entity]
    more: bool


class MachineName(Result):
    entity_type: str
    states: list[dict[str, Any]]


class MachineList(Result):
    results: list[MachineName]


class Machine(Result):
    entity_type: str
    version: str
    initial: str
    states: list[dict[str, Any]]
    transitions: list[dict[str, Any]]


class History(Result):
    events: list[dict[str, Any]]
    more: bool


class Cause(Result):
    entity_type: str
    entity_id: str
    detail: str


class Explanation(Result):
    entity_type: str
    id: str
    state: str
    sentence: str
    transitions: list[dict[str, Any]]
    waiting_on: list[Cause]


class StuckEntity(Result):
    entity_type: str
    id: str
    state: str
    why: str


class StuckList(Result):
    results: list[StuckEntity]
    more: bool


class Stats(Result):
    position: int
    counts: dict[str, dict[str, int]]
    rates: dict[str, Any]


class Rows(Result):
    results: list[dict[str, Any]]
    more: bool


class Fired(Result):
    changed: bool
    event: dict[str, Any] | None
    caused: list[dict[str, Any]]
    caused_count: int
    entity: Entity


class HeartbeatReply(Result):
    state: str
    commands: list[dict[str, Any]]


class ClaimedTask(Entity):
    attempt: int


class Claimed(Result):
    tasks: list[ClaimedTask]


class Permission(Result):
    allowed: bool


class Counted(Result):
    counted: bool
    state: str


class Written(Result):
    next: Annotated[int, Meta(description="the number of the line that is written next")]
