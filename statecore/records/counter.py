"""Exact counts of journal events, written by the counters sink, so that no page counts a large table."""

from __future__ import annotations

from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.fields import STATE_LENGTH

COUNTERS_SINK = "counters"  # the sink that writes these counts; its cursor is the last counted position


class StateCount(models.Model):
    """The number of entities of a machine in a state."""

    entity_type = models.CharField(max_length=32)
    state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("entity_type", "state"), name="state_count_is_one_row"),)

    def __str__(self) -> str:
        return f"{self.entity_type} {self.state}: {self.count}"


class TransitionCount(models.Model):
    """The number of transitions between two states; an empty `from_state` counts creations."""

    entity_type = models.CharField(max_length=32)
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(
                fields=("entity_type", "from_state", "to_state"), name="transition_count_is_one_row"
            ),
        )

    def __str__(self) -> str:
        return f"{self.entity_type} {self.from_state} → {self.to_state}: {self.count}"


class OverrideCount(models.Model):
    """The number of overrides by an operator."""

    entity_type = models.CharField(max_length=32)
    operator = models.CharField(max_length=NAME_LENGTH)
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("entity_type", "operator"), name="override_count_is_one_row"),)

    def __str__(self) -> str:
        return f"{self.entity_type} by {self.operator}: {self.count}"


class DwellCount(models.Model):
    """Unused: the previous version writes it beside this one, so the next release deletes the table."""

    day = models.DateField()
    entity_type = models.CharField(max_length=32)
    state = models.CharField(max_length=STATE_LENGTH)
    bucket = models.PositiveSmallIntegerField()
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(fields=("day", "entity_type", "state", "bucket"), name="dwell_count_is_one_row"),
        )

    def __str__(self) -> str:
        return f"{self.day}: {self.entity_type} {self.state}: {self.count}"


class TransitionRate(models.Model):
    """Unused, like DwellCount."""

    minute = models.DateTimeField()
    entity_type = models.CharField(max_length=32)
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
    overrides = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(
                fields=("minute", "entity_type", "from_state", "to_state"), name="transition_rate_is_one_row"
            ),
        )

    def __str__(self) -> str:
        return f"{self.minute}: {self.entity_type} {self.from_state} → {self.to_state}: {self.count}"
