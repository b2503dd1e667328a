"""Who waits for a person: for a decision or an approval, past a deadline or not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from ..kernel.entity import Entity
from ..kernel.links import together
from ..stuck import scan
from ..stuck.chain import by_machine
from ..stuck.decisions import undecided
from ..stuck.recovery import awaiting_approval

MOST = 100  # of each machine; who has more needs no exact number


class Asking(NamedTuple):
    """By machine: how many wait, and how many of these are past their deadline too, and so counted already."""

    waiting: dict[str, int]
    late: dict[str, int]


def asking(at: datetime) -> Asking:
    each_once = {(entity.flow.entity_type, entity.pk): entity for entity in _found(at)}
    found = Asking({}, {})
    for alike in by_machine(each_once.values(), lambda entity: entity):
        counted, kind = alike[:MOST], alike[0].flow.entity_type
        found.waiting[kind] = len(counted)
        with together(counted):
            found.late[kind] = sum(scan.is_stuck(entity, at) for entity in counted)
    return found


def may_be_more(waiting: dict[str, int]) -> bool:
    return any(count >= MOST for count in waiting.values())


def _found(at: datetime) -> Iterator[Entity]:
    """The same questions as the list asks, each with an end."""
    yield from awaiting_approval(at, MOST)
    yield from (one.entity for one in undecided(MOST))
