"""Run one check of the doctor and read its results."""

from __future__ import annotations

from statecore.operations import doctor
from statecore.operations.doctor import OK


def levels(check: str) -> list[str]:
    return [result.level for result in doctor.run_checks([check])]


def get_problem(check: str) -> tuple[str, str]:
    """Return the level and message of the check's only problem, which must suggest an action."""
    (result,) = [result for result in doctor.run_checks([check]) if result.level != OK]
    assert result.action
    return result.level, result.message


def passes(check: str) -> bool:
    return set(levels(check)) == {OK}
