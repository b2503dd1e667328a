"""Ages, states and entities as parts of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from .entity import Entity

ERROR_LENGTH = 200
UNITS = ((timedelta(days=2), "d", 86_400), (timedelta(hours=2), "h", 3_600), (timedelta(minutes=1), "min", 60))


def format_duration(duration: timedelta) -> str:
    """Formats in whole units, rounded down: `45 s`, `12 min`, `3 h`, `2 d`."""
    for least, unit, seconds in UNITS:
        if duration >= least:
            return f"{duration.total_seconds() // seconds:.0f} {unit}"
    return f"{max(duration.total_seconds(), 0):.0f} s"


def format_age(entity: Entity, at: datetime) -> str:
    return format_duration(at - entity.state_entered_at)


def format_state(entity: Entity) -> str:
    return str(entity.state).lower().replace("_", " ")


def describe_state(entity: Entity, at: datetime, because: str = "") -> str:
    """`queued 9 min: no live worker has git`."""
    return f"{format_state(entity)} {format_age(entity, at)}" + (f": {because}" if because else "")


def entity_noun(entity: Entity) -> str:
    return entity.flow.event_noun.replace("_", " ")


def describe_entity(entity: Entity) -> str:
    return f"{entity_noun(entity)} {entity.pk}"


def format_due(moment: datetime, at: datetime) -> str:
    return f"is due in {format_duration(moment - at)}" if moment > at else f"was due {format_duration(at - moment)} ago"


def describe_end(entity: Entity, at: datetime) -> str:
    """Describes a final entity: `failed 12 min ago with exit 1`."""
    return f"{format_state(entity)} {format_age(entity, at)} ago{_format_exit(entity)}"


def describe_failure(entity: Entity) -> str:
    """Describes a final entity by its error: `failed with exit 1: no such file`."""
    error = first_line(getattr(entity, "last_error", "") or "")
    return f"{format_state(entity)}{_format_exit(entity)}" + (f": {error}" if error else "")


def _format_exit(entity: Entity) -> str:
    code = getattr(entity, "exit_code", None)
    return f" with exit {code}" if code is not None and entity.state not in entity.flow.done else ""


def relative_clause(end: str) -> str:
    """`which failed`, but `which was cancelled`."""
    return f"which {end}" if end.startswith("failed") else f"which was {end}"


def first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:ERROR_LENGTH]


def join_quoted(words: Iterable[str]) -> str:
    """`git` and `helm`, as code, in the given order."""
    quoted = [f"`{word}`" for word in words]
    return " and ".join(part for part in (", ".join(quoted[:-1]), *quoted[-1:]) if part)
