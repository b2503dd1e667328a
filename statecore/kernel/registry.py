"""Which machines there are, and who wants to hear of a change; filled at start-up, read by everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .refusals import NotFound

if TYPE_CHECKING:
    from .flow import Flow

_flows: dict[str, Flow] = {}

# A reaction runs inside the transaction of the changes it is told of; a listener runs after the commit.
Reaction = Callable[[list[Any]], None]
reactions: list[Reaction] = []
listeners: list[Callable[[], None]] = []


def add(flow: Flow) -> None:
    _flows[flow.entity_type] = flow


def flows() -> tuple[Flow, ...]:
    return tuple(_flows.values())


def flow(entity_type: str) -> Flow:
    try:
        return _flows[entity_type]
    except KeyError:
        raise NotFound(f"there is no machine {entity_type!r}", known=sorted(_flows)) from None
