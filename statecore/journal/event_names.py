"""Kinds of events, and their names as the specification uses them, such as `task_blocked`.

A name follows from the machine, the kind and the trigger of an event, so it is derived and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from django.db import models

from ..kernel import registry
from ..kernel.flow import Flow

OVERRIDE_NAME = "manual_state_override"


class EventKind(models.TextChoices):
    NORMAL = "normal"
    PROPAGATED = "propagated"
    OVERRIDE = "override"
    CREATED = "created"
    EDITED = "edited"
    ACCOUNT = "account"  # an entry of the account journal, without a state
    EPOCH = "epoch"  # the first event of an epoch of the journal, without a state
    HOLD = "hold"  # the placing or the end of a hold, without a state


class NamedEvents(NamedTuple):
    """The events that have a name; an empty field does not restrict them."""

    entity_type: str
    kinds: tuple[EventKind, ...]
    trigger: str = ""
    to_state: str = ""


@lru_cache(maxsize=4096)  # every event that is read has a name, and there are few different ones
def name_event(entity_type: str, kind: str, trigger: str, to_state: str) -> str:
    """Returns the name of an event; its trigger if it belongs to no machine, as an account entry does."""
    flow = registry.find(entity_type)
    if flow is None:
        return trigger
    if kind == EventKind.OVERRIDE:
        return OVERRIDE_NAME
    if kind in (EventKind.CREATED, EventKind.EDITED):
        return f"{flow.event_noun}_{kind}"
    return flow.event_names.get(trigger) or f"{flow.event_noun}_{to_state.lower()}"


def find_named(name: str) -> list[NamedEvents]:
    """Returns the events of this name; none if no event can have it."""
    return [events for each, events in _list_names() if each == name]


def list_names() -> list[str]:
    return sorted({name for name, _events in _list_names()})


def _list_names() -> Iterator[tuple[str, NamedEvents]]:
    yield OVERRIDE_NAME, NamedEvents("", (EventKind.OVERRIDE,))
    for flow in registry.flows():
        for events in _list_events(flow):
            yield name_event(flow.entity_type, events.kinds[0], events.trigger, events.to_state), events


def _list_events(flow: Flow) -> Iterator[NamedEvents]:
    for kind in (EventKind.CREATED, EventKind.EDITED):
        yield NamedEvents(flow.entity_type, (kind,))
    for trigger, target in dict.fromkeys((each.trigger, each.target) for each in flow.transitions):
        yield NamedEvents(flow.entity_type, (EventKind.NORMAL, EventKind.PROPAGATED), trigger, target)
