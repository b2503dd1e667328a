"""The period that a report shows: its start, end and steps, and the resolution to read it from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ...kernel.refusals import Invalid
from ...records.roll_up import RETENTION, Resolution

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
RANGES = {"1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 7 * DAY, "30d": 30 * DAY, "90d": 90 * DAY}
MAX_DAYS = 366
# Steps, each with the longest period that it divides well. The finest one that is still kept is used.
STEPS = (
    (MINUTE, Resolution.MINUTE, 2 * HOUR),
    (5 * MINUTE, Resolution.MINUTE, 8 * HOUR),
    (15 * MINUTE, Resolution.MINUTE, 36 * HOUR),
    (HOUR, Resolution.HOUR, 3 * DAY),
    (2 * HOUR, Resolution.HOUR, 10 * DAY),
    (DAY, Resolution.DAY, MAX_DAYS * DAY),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(NamedTuple):
    """`step_count` steps from `start`; the last one may be incomplete, because nothing is known after `end`."""

    start: datetime
    end: datetime
    step: timedelta
    resolution: Resolution

    @property
    def step_count(self) -> int:
        return -((self.start - self.end) // self.step)

    @property
    def previous_start(self) -> datetime:
        return self.start - self.step_count * self.step

    def list_starts(self) -> list[datetime]:
        return [self.start + number * self.step for number in range(self.step_count)]

    def list_minutes(self) -> list[float]:
        """The length of each step in minutes, as far as it is over."""
        return [min(self.step, self.end - start) / MINUTE for start in self.list_starts()]


def choose_range(name: str, at: datetime) -> Period:
    """The last complete minutes of a named range."""
    end = Resolution.MINUTE.truncate(at)
    return _build(end - RANGES[name], end, at)


def choose_period(since: datetime, until: datetime, at: datetime) -> Period:
    """Raises Invalid for a period that is empty or too long."""
    end = Resolution.MINUTE.truncate(min(until, at))
    if end - since < MINUTE:
        raise Invalid({"until": ["must be at least a minute after since, which must be in the past."]})
    if end - since > MAX_DAYS * DAY:
        raise Invalid({"since": [f"must be at most {MAX_DAYS} days before until."]})
    return _build(since, end, at)


def _build(start: datetime, end: datetime, at: datetime) -> Period:
    for step, resolution, longest in STEPS:
        # Two lengths back, for the period before.
        if end - start <= longest and start - (end - start) - step >= at - RETENTION[resolution]:
            break
    start = _truncate(start, step)
    # A step of the past is shown whole, because its numbers are those of all of it.
    return Period(start, min(_truncate(end - MINUTE, step) + step, Resolution.MINUTE.truncate(at)), step, resolution)


def _truncate(at: datetime, step: timedelta) -> datetime:
    return EPOCH + (at - EPOCH) // step * step
