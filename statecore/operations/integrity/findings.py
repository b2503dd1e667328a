"""The problems that an integrity check reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING = "error", "warning"
LIMIT = 100  # findings per check and machine
# Findings about the journal file, which the sequencer repairs, and about silent witnesses.
JOURNAL_FILE_CHECK, WITNESS_CHECK = "journal_file", "witness"
# Findings about differences from the files in the home directory.
COPY_CHECKS = ("checkpoint", "copy")


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


def select_database_errors(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the errors that are in the database, without those of files and witnesses outside."""
    outside = (JOURNAL_FILE_CHECK, WITNESS_CHECK)
    return [finding for finding in findings if finding.severity == ERROR and finding.check not in outside]


def build_journal_error(check: str, detail: str) -> Finding:
    """Returns an error that concerns the journal as a whole, not one entity."""
    return Finding(check, ERROR, "", "", detail)
