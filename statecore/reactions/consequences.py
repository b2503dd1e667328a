"""Moving those who are concerned, now or as soon as they are free."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction

from .. import door
from ..door.work import perform
from ..kernel.entity import Entity
from .causes import Causes

Reconsider = Callable[[Causes], None]


def move(model: type[Entity], trigger: str, causes: Causes, again: Reconsider, **how: Any) -> None:
    """Fire a trigger for each; `again` is asked after the commit about those whom somebody else holds."""
    held = door.follow_up(model, causes, trigger, **how)
    if held:
        left_out = {entity_id: causes[entity_id] for entity_id in held}
        # Robust: what was committed stays so; whoever is left out even then is found by the sweep.
        transaction.on_commit(partial(_look_again, model, left_out, again), robust=True)


def _look_again(model: type[Entity], causes: Causes, again: Reconsider) -> None:
    """One after the other, each in a transaction of its own, which waits for whoever holds it."""
    for entity_id, cause in causes.items():
        perform(partial(_wait_and_ask, model, {entity_id: cause}, again))


def _wait_and_ask(model: type[Entity], causes: Causes, again: Reconsider) -> None:
    door.wait_for(model, list(causes))
    again(causes)
