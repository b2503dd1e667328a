"""Moving those who are concerned, now or as soon as they are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.db import transaction

from .. import door
from ..door import rows
from ..door.perform import perform
from ..kernel.entity import Entity
from ..kernel.links import answered
from .causes import Causes

Reconsider = Callable[[Causes], None]


def move_each(
    model: type[Entity],
    steps: Iterable[tuple[str, str | None]],
    causes: Causes,
    again: Reconsider,
    seen: Mapping[str, dict[Any, Any]] | None = None,
) -> None:
    """Let each make its next step, if it has one; `seen` are the answers that a step's guards need not ask for."""
    wanted: dict[str, Causes] = {}
    for entity_id, trigger in steps:
        if trigger:
            wanted.setdefault(trigger, {})[entity_id] = causes[entity_id]
    for trigger, found in wanted.items():
        with answered((seen or {}).get(trigger, {})):
            move(model, trigger, found, again)


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
    rows.lock_many(model, list(causes))
    again(causes)
