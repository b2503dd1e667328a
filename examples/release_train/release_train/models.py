"""A train: it boards, is loaded once its run has succeeded, departs, or is cancelled. And the record of departures."""

from __future__ import annotations

from datetime import timedelta

from django.db import models

from statecore.framework.declarations import (
    OPERATOR,
    SYSTEM,
    Entity,
    Facts,
    Flow,
    Rest,
    StateField,
    Unmet,
    constraints,
    format_utc,
    transition,
)


class State(models.TextChoices):
    BOARDING = "boarding"
    LOADED = "loaded"
    DEPARTED = "departed"
    CANCELLED = "cancelled"


def it_is_due(train: Train, facts: Facts) -> Unmet | None:
    if train.departs_at <= facts.at:
        return None
    return Unmet("too_early", f"it departs at {format_utc(train.departs_at)}")


class Train(Entity):
    flow = Flow(
        version="1.0.0",
        collection="trains",
        final={State.DEPARTED, State.CANCELLED},
        done={State.DEPARTED},
        timing={State.BOARDING: Rest("it waits for its run"), State.LOADED: timedelta(days=1)},
        created_by={OPERATOR, SYSTEM},
    )
    state = StateField(State, initial=State.BOARDING)
    run = models.ForeignKey("statecore.Run", models.PROTECT, related_name="trains")
    departs_at = models.DateTimeField()

    class Meta(Entity.Meta):
        constraints = (constraints.one_of("train", "state", State),)

    @transition("run_succeeded", source=State.BOARDING, target=State.LOADED, by={OPERATOR, SYSTEM})
    def load(self) -> None: ...

    @transition("departed", source=State.LOADED, target=State.DEPARTED, by={OPERATOR, SYSTEM}, guards=[it_is_due])
    def depart(self) -> None: ...

    @transition("cancelled", source=[State.BOARDING, State.LOADED], target=State.CANCELLED, by={OPERATOR})
    def cancel(self) -> None: ...


class Departure(models.Model):
    """Written by the sink; a report may read it without the journal."""

    train = models.OneToOneField(Train, models.PROTECT, primary_key=True, related_name="+")
    position = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.train_id} at {self.position}"
