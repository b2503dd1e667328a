"""What the door answers when it says yes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..journal import Entry
from ..kernel.entity import Entity


@dataclass(slots=True)
class Outcome:
    """`changed` is false for a repeat that was already true; `answer` is what a replayed request was told."""

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
            "changed": self.changed,
            "event": self.entry.as_dict() if self.entry else None,
            "caused": [entry.as_dict() for entry in self.caused],
            "entity": self.entity.as_dict() if self.entity else None,
        }
