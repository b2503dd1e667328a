"""A turnstile: a coin unlocks it, a push locks it again, and an operator scraps it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from statecore.framework.declarations import (
    AGENT,
    OPERATOR,
    SYSTEM,
    Entity,
    Facts,
    Flow,
    Rest,
    Severity,
    StateField,
    Unmet,
    constraints,
    transition,
)  # fmt: skip


class State(models.TextChoices):
    LOCKED = "locked"
    UNLOCKED = "unlocked"
    SCRAPPED = "scrapped"


FINAL = {State.SCRAPPED}


def the_coin_is_enough(turnstile: Turnstile, facts: Facts) -> Unmet | None:
    coin: int = facts.params["coin"]
    return None if coin >= turnstile.price else Unmet("too_little", f"{coin} of {turnstile.price}")


class Turnstile(Entity):
    flow = Flow(
        version="1.0.0",
        collection="turnstiles",
        final=FINAL,
        timing={
            State.LOCKED: Rest("a visitor may never come"),
            State.UNLOCKED: timedelta(minutes=1),
        },
        monotonic=("attempt", "earned"),
    )

    state = StateField(State, initial=State.LOCKED)
    price = models.PositiveSmallIntegerField(default=2)
    earned = models.PositiveIntegerField(default=0, editable=False)
    scrapped_at = models.DateTimeField(null=True, editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("turnstile", "state", State),
            constraints.set_exactly_in("turnstile", "scrapped_at", FINAL),
        )

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.scrapped_at = at if state in FINAL else None

    @transition(
        "coin_inserted", source=State.LOCKED, target=State.UNLOCKED, by={AGENT, SYSTEM}, guards=[the_coin_is_enough]
    )
    def unlock(self, coin: int) -> None:
        self.earned += coin

    @transition("pushed", source=State.UNLOCKED, target=State.LOCKED, by={AGENT, SYSTEM})
    def lock(self) -> None: ...

    @transition("scrap_ordered", source={State.LOCKED, State.UNLOCKED}, target=State.SCRAPPED, by={OPERATOR},
          severity=Severity.WARNING)  # fmt: skip
    def scrap(self) -> None: ...
