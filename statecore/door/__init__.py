"""The door: the only way to write the state of an entity.

One transaction: replay if the request was seen, lock the row, is the move open from here, may this actor, do the
guards hold, make the move, write row and event, let the reactions follow. A refusal changes nothing.
"""

from .batch import Item, Turn, follow_up, not_there, transition_in_turn, transition_many
from .create import create
from .edit import edit, editable
from .idempotency import RequestKey
from .outcome import Outcome
from .override import Category, override, takes_two
from .retry import retry
from .transition import transition

__all__ = [
    "Category",
    "Item",
    "Outcome",
    "RequestKey",
    "Turn",
    "create",
    "edit",
    "editable",
    "follow_up",
    "not_there",
    "override",
    "retry",
    "takes_two",
    "transition",
    "transition_in_turn",
    "transition_many",
]
