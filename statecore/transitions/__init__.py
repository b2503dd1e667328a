"""The transition service: the only code that writes the state of an entity.

One transaction: replay a repeated request, lock the row, check that the transition is open, the actor permitted and the
guards hold, apply it, record the event, run the reactions, write all rows and events. A refusal changes nothing.
"""

from .batch import (
    Item,
    Turn,
    follow_up,
    missing_item,
    transition_in_turn,
    transition_many,
)
from .create import create
from .edit import amend, edit, editable_fields
from .idempotency import RequestKey
from .outcome import Outcome
from .override import Category, override
from .retry import retry
from .transition import transition
from .waivers import waive

__all__ = [
    "Category",
    "Item",
    "Outcome",
    "RequestKey",
    "Turn",
    "amend",
    "create",
    "edit",
    "editable_fields",
    "follow_up",
    "missing_item",
    "override",
    "retry",
    "transition",
    "transition_in_turn",
    "transition_many",
    "waive",
]
