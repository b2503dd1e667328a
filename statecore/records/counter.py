"""Exact counts of what the journal says, so that no page counts a big table. Written by the counters sink."""

from __future__ import annotations

from django.db import models

from ..kernel.actors import NAME_LENGTH
from ..kernel.state_field import STATE_LENGTH


class StateCount(models.Model):
    """How many entities of a machine are in a state."""

    entity_type = models.CharField(max_length=32)
    state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("entity_type", "state"), name="state_count_is_one_row"),)

    def __str__(self) -> str:
        return f"{self.entity_type} {self.state}: {self.count}"


class TransitionCount(models.Model):
    """How often a machine went from one state to another; from no state it was created."""

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
    """How often an operator forced a machine."""

    entity_type = models.CharField(max_length=32)
    operator = models.CharField(max_length=NAME_LENGTH)
    count = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("entity_type", "operator"), name="override_count_is_one_row"),)

    def __str__(self) -> str:
        return f"{self.entity_type} by {self.operator}: {self.count}"


class TransitionRate(models.Model):
    """The same by minute, for rates and for the alerts' windows; old minutes are dropped."""

    minute = models.DateTimeField()
    entity_type = models.CharField(max_length=32)
    from_state = models.CharField(max_length=STATE_LENGTH)
    to_state = models.CharField(max_length=STATE_LENGTH)
    count = models.BigIntegerField(default=0)
    # Of them, those that are failures by their severity, and those that an operator forced.
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
