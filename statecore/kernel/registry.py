"""The registered machines, reactions and commit listeners; filled at start-up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from .refusals import NotFound

if TYPE_CHECKING:
    from .flow import Flow

_flows: dict[str, Flow] = {}

# A reaction receives the unit of work and the changes of one machine, or of all machines if it is registered for "".
# It runs inside their transaction.
Reaction = Callable[[Any, list[Any]], None]
reactions: list[tuple[str, Reaction]] = []
# A reaction to an edit receives the unit of work, the edited entity of the machine and the names of the changed fields.
EditReaction = Callable[[Any, Any, Collection[str]], None]
edit_reactions: list[tuple[str, EditReaction]] = []
# A listener runs after each commit.
listeners: list[Callable[[], None]] = []


def add(flow: Flow) -> None:
    _flows[flow.entity_type] = flow


def flows() -> tuple[Flow, ...]:
    return tuple(_flows.values())


def find(entity_type: str) -> Flow | None:
    return _flows.get(entity_type)


def flow(entity_type: str) -> Flow:
    try:
        return _flows[entity_type]
    except KeyError:
        raise NotFound(f"there is no machine {entity_type!r}", known=sorted(_flows)) from None
