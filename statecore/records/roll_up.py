"""Numbers by minute, hour and day, written by the trends sink: transitions, times in states, and load.

Each table has all resolutions, so that a report about an hour reads minutes and one about a quarter of a year days.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil, log2

from django.db import models

from ..kernel.fields import STATE_LENGTH

TRENDS_SINK = "trends"
CAPABILITY_LENGTH = 100
DAY = timedelta(days=1)


class Resolution(models.IntegerChoices):
    """The length of a period, in minutes."""

    MINUTE = 1
    HOUR = 60
    DAY = 1440

    def truncate(self, at: datetime) -> datetime:
        """Returns the start of the period, in UTC."""
        minute = at.astimezone(UTC).replace(second=0, microsecond=0)
        if self is Resolution.MINUTE:
            return minute
        return minute.replace(minute=0) if self is Resolution.HOUR else minute.replace(hour=0, minute=0)


# A report shows a period and the one before it; the heat map shows hours of up to a quarter of a year.
RETENTION = {Resolution.MINUTE: 3 * DAY, Resolution.HOUR: 100 * DAY, Resolution.DAY: 800 * DAY}


def find_bucket(seconds: float) -> int:
    """Returns the bucket of a histogram: a quarter of an octave, so that the times in it differ by less than a fifth.

    The bounds are fixed, so histograms of any periods add up.
    """
    return max(0, ceil(4 * log2(seconds))) if seconds > 0 else 0


def get_bucket_seconds(bucket: int) -> float:
    """Returns the longest time of a bucket."""
    return float(2 ** (bucket / 4))


class RollUp(models.Model):
    """A row of numbers for a period; its constraint has the columns that identify it."""

    resolution = models.PositiveSmallIntegerField()
    start = models.DateTimeField()

    class Meta:
        abstract = True
        default_permissions = ("view",)


class TransitionRollUp(RollUp):
    """Transitions between two states; an empty `from_state` counts creations."""

    entity_type = models.CharField(max_length=32)
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)
    # How many of them are failures, by severity or by the state they lead to, and how many are overrides.
    failures = models.BigIntegerField(default=0)
    overrides = models.BigIntegerField(default=0)

    class Meta(RollUp.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("resolution", "start", "entity_type", "from_state", "to_state"), name="transition_roll_up"
            ),
        )

    def __str__(self) -> str:
        return f"{self.start}: {self.entity_type} {self.from_state} → {self.to_state}: {self.count}"


class DwellRollUp(RollUp):
    """How often entities stayed about this long in a state before they left it without force."""

    entity_type = models.CharField(max_length=32)
    state = models.CharField(max_length=STATE_LENGTH)
    bucket = models.PositiveSmallIntegerField()
    count = models.BigIntegerField(default=0)

    class Meta(RollUp.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("resolution", "entity_type", "state", "start", "bucket"), name="dwell_roll_up"
            ),
        )
        # For expectations, which read all states, and for deleting old rows.
        indexes = (models.Index(fields=("resolution", "start"), name="dwell_roll_up_by_start"),)

    def __str__(self) -> str:
        longest = get_bucket_seconds(self.bucket)
        return f"{self.start}: {self.entity_type} {self.state} up to {longest:g} s: {self.count}"


class CapabilityRollUp(RollUp):
    """How often tasks that require a capability stayed about this long in a state, queued or running.

    `failures` are those that left it for a failure.
    """

    capability = models.CharField(max_length=CAPABILITY_LENGTH)
    state = models.CharField(max_length=STATE_LENGTH)
    bucket = models.PositiveSmallIntegerField()
    count = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)

    class Meta(RollUp.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("resolution", "capability", "state", "start", "bucket"), name="capability_roll_up"
            ),
        )
        indexes = (models.Index(fields=("resolution", "start"), name="capability_roll_up_by_start"),)

    def __str__(self) -> str:
        longest = get_bucket_seconds(self.bucket)
        return f"{self.start}: {self.capability} {self.state} up to {longest:g} s: {self.count}"


class Load(models.TextChoices):
    SLOTS = "slots"  # tasks that the live workers can run at once
    BUSY = "busy"  # tasks that they are running
    QUEUED = "queued"
    STUCK = "stuck"


class LoadRollUp(RollUp):
    """The sum of a number that is sampled once a minute. `subject` is a capability, or the machine of what is stuck.

    Slots, busy and queued without a subject are sampled even if they are 0, so that their samples count for all.
    """

    measure = models.CharField(max_length=16)
    subject = models.CharField(max_length=CAPABILITY_LENGTH)
    total = models.BigIntegerField(default=0)
    samples = models.BigIntegerField(default=0)

    class Meta(RollUp.Meta):
        constraints = (
            models.UniqueConstraint(fields=("resolution", "start", "measure", "subject"), name="load_roll_up"),
        )

    def __str__(self) -> str:
        return f"{self.start}: {self.measure} {self.subject}: {self.total} in {self.samples} samples"


ROLL_UPS = (TransitionRollUp, DwellRollUp, CapabilityRollUp, LoadRollUp)
