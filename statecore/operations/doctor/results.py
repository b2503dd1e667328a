"""The result of a check. `ok`, `warning` and `error` create a result of that level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

OK, WARNING, ERROR = "ok", "warning", "error"
# By severity; the index is the exit code of the command.
LEVELS = (OK, WARNING, ERROR)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """An error means that something does not work; a warning means that it may soon fail, or that it is insecure."""

    level: str
    message: str
    action: str = ""
    check: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def ok(message: str) -> CheckResult:
    return CheckResult(OK, message)


def warning(message: str, action: str) -> CheckResult:
    return CheckResult(WARNING, message, action)


def error(message: str, action: str) -> CheckResult:
    return CheckResult(ERROR, message, action)


def find_worst_level(results: Iterable[CheckResult]) -> str:
    return max((result.level for result in results), key=LEVELS.index, default=OK)


def pluralize(count: int, noun: str) -> str:
    """Returns `1 seal` or `2 seals`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_some(names: list[str], limit: int = 5) -> str:
    """Returns the first names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def get_first_line(exception: Exception) -> str:
    """Returns the first line of the exception's text, or its type if it has none."""
    return (str(exception).strip().splitlines() or [type(exception).__name__])[0]
