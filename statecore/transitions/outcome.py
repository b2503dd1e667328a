"""What a call of the transition service returns, and the count of those it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter

from ..journal import Entry
from ..kernel.entity import Entity
from ..kernel.refusals import Refusal

# Events of a cascade in an answer: a run of 10,000 tasks that is cancelled would otherwise make one of 8 MB.
MAX_CAUSED = 100

refusals_total = Counter("statecore_refusals_total", "Refused changes", ["entity_type", "code"])


@dataclass(slots=True)
class Outcome:
    """`changed` is false for a repeat that was already true; `answer` is the stored response of a replayed request."""

    entity: Entity | None
    entry: Entry | None
    caused: tuple[Entry, ...] = ()
    answer: dict[str, Any] = field(default_factory=dict)
    replayed: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.answer.get("changed")) if self.replayed else self.entry is not None

    def as_dict(self) -> dict[str, Any]:
        if self.replayed:
            return self.answer
        return {
            "changed": self.entry is not None,
            "event": self.entry.as_dict() if self.entry else None,
            "caused": [entry.as_dict() for entry in self.caused[:MAX_CAUSED]],
            "caused_count": len(self.caused),
            "entity": self.entity.as_dict() if self.entity else None,
        }


@contextmanager
def counting_refusals(entity_type: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        count_refusal(entity_type, refusal)
        raise


def count_refusal(entity_type: str, refusal: Refusal) -> None:
    """Count a refusal once, although it passes through several nested calls."""
    if not refusal.counted:
        refusal.counted = True
        refusals_total.labels(entity_type, refusal.code).inc()
