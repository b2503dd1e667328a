"""Something that is not as it should be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING = "error", "warning"
LIMIT = 100  # findings of one kind; who has more needs no longer list


@dataclass(frozen=True, slots=True)
class Finding:
    """An error is corruption: nothing legal leads there. A warning is a broken rule that an override may explain."""

    check: str
    severity: str
    entity_type: str
    entity_id: str
    detail: str

    def __str__(self) -> str:
        where = f"{self.entity_type} {self.entity_id}".strip()
        return f"{self.severity}: {where}: {self.detail} ({self.check})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
