"""How ages, states and entities are said in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from ..kernel.entity import Entity

ERROR_LENGTH = 200
STEPS = ((timedelta(days=2), "d", 86_400), (timedelta(hours=2), "h", 3_600), (timedelta(minutes=1), "min", 60))


def length(duration: timedelta) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`: in whole units, rounded down, as a person would say it."""
    for least, unit, seconds in STEPS:
        if duration >= least:
            return f"{duration.total_seconds() // seconds:.0f} {unit}"
    return f"{max(duration.total_seconds(), 0):.0f} s"


def age(entity: Entity, at: datetime) -> str:
    return length(at - entity.state_entered_at)


def state(entity: Entity) -> str:
    return str(entity.state).lower().replace("_", " ")


def standing(entity: Entity, at: datetime, because: str = "") -> str:
    """`queued 9 min: no live worker has git`."""
    return f"{state(entity)} {age(entity, at)}" + (f": {because}" if because else "")


def noun(entity: Entity) -> str:
    return entity.flow.event_noun.replace("_", " ")


def named(entity: Entity) -> str:
    return f"{noun(entity)} {entity.pk}"


def until(moment: datetime, at: datetime) -> str:
    return f"is due in {length(moment - at)}" if moment > at else f"was due {length(at - moment)} ago"


def ended(entity: Entity, at: datetime) -> str:
    """How something final came to its end: `failed 12 min ago with exit 1`."""
    code = getattr(entity, "exit_code", None)
    with_code = f" with exit {code}" if code is not None and entity.state not in entity.flow.done else ""
    return f"{state(entity)} {age(entity, at)} ago{with_code}"


def which(how: str) -> str:
    """`which failed`, `which was cancelled`: failing is one's own doing, everything else is done to one."""
    return f"which {how}" if how.startswith("failed") else f"which was {how}"


def first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:ERROR_LENGTH]


def listed(words: Iterable[str]) -> str:
    """`git`, `git` and `helm`: as code, in the order given."""
    quoted = [f"`{word}`" for word in words]
    return " and ".join(part for part in (", ".join(quoted[:-1]), *quoted[-1:]) if part)
