"""The list of what is stuck, longest overdue first, each with why and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import nlargest
from typing import Any, NamedTuple

from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..records import acknowledgement
from ..records.acknowledgement import Acknowledgement
from . import chain, scan
from .by_hand import by_hand
from .decisions import undecided
from .gauge import overdue_counts
from .recovery import APPROVAL, Proposal, awaiting_approval, proposal_for
from .sight import Sight, sees

USUAL_LIMIT = 100


class Kind(StrEnum):
    OVERDUE = "overdue"
    NEEDS_APPROVAL = "needs approval"
    NEEDS_DECISION = "needs a decision"


@dataclass(frozen=True, slots=True)
class Item:
    entity: Entity
    kind: Kind
    since: datetime
    deadline: timedelta | None
    overdue: timedelta
    why: str
    recovery: Proposal
    seen: Acknowledgement | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "entity_type": self.entity.flow.entity_type,
            "id": self.entity.pk,
            "state": self.entity.state,
            "kind": self.kind.value,
            "since": rfc3339(self.since),
            "deadline_seconds": self.deadline.total_seconds() if self.deadline else None,
            "overdue_seconds": self.overdue.total_seconds(),
            "why": self.why,
            "recovery": self.recovery.as_dict(),
            "acknowledged_by": self.seen.actor if self.seen else None,
            "acknowledged_at": rfc3339(self.seen.at) if self.seen else None,
        }


class _Found(NamedTuple):
    entity: Entity
    since: datetime
    overdue: timedelta
    is_decision: bool = False

    @property
    def key(self) -> acknowledgement.Key:
        return self.entity.flow.entity_type, self.entity.pk


def stuck(
    limit: int = USUAL_LIMIT, *, entity_type: str | None = None, beyond: float = 1.0, sight: Sight = None
) -> list[Item]:
    """At most so many of all that are past a deadline, need a decision or wait for an approval.

    With `beyond`, only those that have taken more than so many times what their deadline gives them; with a sight,
    those that may be seen, and no more told of what they wait for.
    """
    at, wanted = now(), None if entity_type is None else registry.flow(entity_type).entity_type

    def is_wanted(kind: str) -> bool:
        return wanted in (None, kind) and sees(sight, kind)

    found = [*_overdue(at, limit, is_wanted, beyond)]
    if beyond <= 1.0:
        # Needing a decision says more than being late: it comes last and wins.
        found += [*_awaiting_approval(at, limit), *_undecided(at, limit)]
    each_once = {one.key: one for one in found if is_wanted(one.entity.flow.entity_type)}
    longest = nlargest(limit, each_once.values(), key=lambda one: one.overdue)
    seen = acknowledgement.acknowledged(one.entity for one in longest)
    return _items(longest, chain.chains_of((one.entity for one in longest), at, sight), at, seen)


def _items(
    found: list[_Found], chains: list[list[chain.Link]], at: datetime, seen: dict[acknowledgement.Key, Acknowledgement]
) -> list[Item]:
    """In the order they were found; what the recoveries of one machine ask is asked for all its entities."""
    made: dict[acknowledgement.Key, Item] = {}
    for alike in chain.by_machine(zip(found, chains, strict=True), lambda each: each[0].entity):
        with chain.beside([one.entity for one, _links in alike]):
            made |= {one.key: _item(one, at, links, seen.get(one.key)) for one, links in alike}
    return [made[one.key] for one in found]


def _overdue(at: datetime, limit: int, is_wanted: Callable[[str], bool], beyond: float) -> Iterator[_Found]:
    """Asks for rows only where there are some."""
    for kind, state, count in overdue_counts(at):
        if count and is_wanted(kind):
            yield from (_late(row, at) for row in scan.overdue(registry.flow(kind), state, at, limit, beyond))


def _awaiting_approval(at: datetime, limit: int) -> Iterator[_Found]:
    return (_late(entity, at) for entity in awaiting_approval(at, limit))


def _undecided(at: datetime, limit: int) -> Iterator[_Found]:
    for entity, since in undecided(limit):
        yield _Found(entity, since, max(at - since, timedelta()), is_decision=True)


def _late(entity: Entity, at: datetime) -> _Found:
    return _Found(entity, scan.clock_of(entity), scan.overdue_by(entity, at) or timedelta())


def _item(found: _Found, at: datetime, links: list[chain.Link], seen: Acknowledgement | None) -> Item:
    entity = found.entity
    proposal = None if found.is_decision else proposal_for(entity, at)
    return Item(
        entity=entity,
        kind=_kind(found, proposal),
        since=found.since,
        deadline=None if found.is_decision else entity.flow.deadline(entity.state),
        overdue=found.overdue,
        why=chain.sentence(links),
        recovery=proposal or by_hand(entity, links, at),
        seen=seen,
    )


def _kind(found: _Found, proposal: Proposal | None) -> Kind:
    if found.is_decision:
        return Kind.NEEDS_DECISION
    return Kind.NEEDS_APPROVAL if proposal and proposal.mode == APPROVAL else Kind.OVERDUE
