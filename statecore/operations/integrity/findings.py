"""The problems that an integrity check reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING = "error", "warning"
LIMIT = 100  # findings per check and machine


@dataclass(frozen=True, slots=True)
class Finding:
    """An error is corruption, which no legal operation causes. A warning is a violated rule that may be legitimate."""

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


def build_journal_error(check: str, detail: str) -> Finding:
    """Returns an error that concerns the journal as a whole, not one entity."""
    return Finding(check, ERROR, "", "", detail)
