"""The list of what is stuck, longest overdue first, each with why and what can be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..records import acknowledgement
from ..records.acknowledgement import Acknowledgement
from . import chain
from .by_hand import by_hand
from .recovery import APPROVAL, Proposal, proposal_for
from .sight import Sight, sees
from .sources import Found, Place, sources

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


class Page(NamedTuple):
    items: list[Item]
    # Who stands last on it, where somebody stands behind them.
    onward: Place | None


def stuck(limit: int = USUAL_LIMIT, *, entity_type: str | None = None, sight: Sight = None) -> list[Item]:
    """Everything that needs a hand, longest overdue first; of all machines, or of one by its entity type or its name.

    With a sight, those that may be seen, and no more told of what they wait for.
    """
    return page(limit, entity_type=entity_type, sight=sight).items


def page(
    limit: int = USUAL_LIMIT, *, after: Place | None = None, entity_type: str | None = None, sight: Sight = None
) -> Page:
    """The same from a place on: whatever comes to be stuck in the meantime stands behind it."""
    at, wanted = now(), None if entity_type is None else registry.flow(entity_type).entity_type

    def is_wanted(kind: str) -> bool:
        return wanted in (None, kind) and sees(sight, kind)

    found = [one for source in sources(at, is_wanted) for one in source.after(after, limit + 1)]
    # Not by their ids: in each source they are in order, and stay so.
    longest = sorted(found, key=lambda one: one.place[:2])[:limit]
    seen = acknowledgement.acknowledged(one.entity for one in longest)
    items = _items(longest, chain.chains_of((one.entity for one in longest), at, sight), at, seen)
    return Page(items, longest[-1].place if len(found) > limit else None)


def _items(
    found: list[Found], chains: list[list[chain.Link]], at: datetime, seen: dict[acknowledgement.Key, Acknowledgement]
) -> list[Item]:
    """In the order they were found; what the recoveries of one machine ask is asked for all its entities."""
    made: dict[acknowledgement.Key, Item] = {}
    for alike in chain.by_machine(zip(found, chains, strict=True), lambda each: each[0].entity):
        with chain.beside([one.entity for one, _links in alike]):
            made |= {one.key: _item(one, at, links, seen.get(one.key)) for one, links in alike}
    return [made[one.key] for one in found]


def _item(found: Found, at: datetime, links: list[chain.Link], seen: Acknowledgement | None) -> Item:
    entity = found.entity
    proposal = None if found.is_decision else proposal_for(entity, at)
    return Item(
        entity=entity,
        kind=_kind(found, proposal),
        since=found.since,
        deadline=None if found.is_decision else entity.flow.deadline(entity.state),
        overdue=found.overdue(at),
        why=chain.sentence(links),
        recovery=proposal or by_hand(entity, links, at),
        seen=seen,
    )


def _kind(found: Found, proposal: Proposal | None) -> Kind:
    if found.is_decision:
        return Kind.NEEDS_DECISION
    return Kind.NEEDS_APPROVAL if proposal and proposal.mode == APPROVAL else Kind.OVERDUE
