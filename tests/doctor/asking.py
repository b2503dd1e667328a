"""What the doctor says of one thing."""

from __future__ import annotations

from statecore import doctor
from statecore.doctor import OK


def levels(check: str) -> list[str]:
    return [finding.level for finding in doctor.examine([check])]


def complaint(check: str) -> tuple[str, str]:
    """The one that there is: how bad, and what it says. It always says what to do."""
    (finding,) = [finding for finding in doctor.examine([check]) if finding.level != OK]
    assert finding.do
    return finding.level, finding.says


def is_content_with(check: str) -> bool:
    return set(levels(check)) == {OK}
