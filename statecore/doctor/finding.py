"""One answer of the doctor's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

OK, WARNING, ERROR = "ok", "warning", "error"
# By how bad it is, which is also the exit code of the command.
LEVELS = (OK, WARNING, ERROR)


@dataclass(frozen=True, slots=True)
class Finding:
    """An error keeps the installation, or a part of it, from working; a warning will, or lets somebody in."""

    level: str
    says: str
    do: str = ""
    check: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def fine(says: str) -> Finding:
    return Finding(OK, says)


def warn(says: str, do: str) -> Finding:
    return Finding(WARNING, says, do)


def wrong(says: str, do: str) -> Finding:
    return Finding(ERROR, says, do)


def many(count: int, noun: str) -> str:
    """`1 seal`, `2 seals`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def worst(findings: Iterable[Finding]) -> str:
    return max((finding.level for finding in findings), key=LEVELS.index, default=OK)
