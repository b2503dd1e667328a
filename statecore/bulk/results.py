"""What a bulk action did to each entity, and what it caused in others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..journal import Entry
from ..kernel.refusals import Refusal
from ..transitions import Item, Outcome

Caused = Counter[tuple[str, str]]  # how many entities a bulk action led to a state, by entity type and state


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one entity; `approval` is the request that waits for a second person instead of a change."""

    entity_id: str
    changed: bool = False
    event: Entry | None = None
    caused: tuple[Entry, ...] = ()
    refusal: Refusal | None = None
    approval: Mapping[str, Any] | None = None

    @classmethod
    def of_outcome(cls, entity_id: str, outcome: Outcome) -> Result:
        approval = outcome.as_dict().get("approval") if outcome.entry is None else None
        return cls(entity_id, outcome.changed, outcome.entry, outcome.caused, approval=approval)

    @classmethod
    def of_item(cls, item: Item) -> Result:
        if item.refusal is not None or item.outcome is None:
            return cls(item.entity_id, refusal=item.refusal)
        return cls.of_outcome(item.entity_id, item.outcome)

    def as_dict(self) -> dict[str, Any]:
        refusal = self.refusal and {**self.refusal.as_dict(), "status": self.refusal.status}
        shown = {"id": self.entity_id, "changed": self.changed, "event": self.event and self.event.as_dict()}
        return {**shown, "refusal": refusal, **({} if self.approval is None else {"approval": dict(self.approval)})}


def serialize_item(item: Item) -> dict[str, Any]:
    return Result.of_item(item).as_dict()


def count_caused(results: Iterable[Result]) -> Caused:
    """Count the consequences in other entities, each once, in the state that it ends in."""
    results = list(results)
    own = {(result.event.entity_type, result.event.entity_id) for result in results if result.event}
    ended: dict[tuple[str, str], str] = {}
    for result in results:
        ended |= {(each.entity_type, each.entity_id): each.to_state for each in result.caused}
    return Counter((kind, state) for (kind, pk), state in ended.items() if (kind, pk) not in own)


def describe_caused(caused: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """The most frequent first."""
    ordered = sorted(caused.items(), key=lambda item: (-item[1], item[0]))
    return [{"entity_type": kind, "to_state": state, "count": count} for (kind, state), count in ordered]
