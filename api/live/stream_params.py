"""The parameters of an event stream: filters, and the position to resume from."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from statecore.delivery.live import EventFilter, Hub, PositionTooOld, Subscription
from statecore.read_models.history import Filters

from ..access import narrow_to_visible
from ..monitoring.journal import FILTERS
from ..query_params import QueryParams


class StreamParams(NamedTuple):
    after: int | None
    filter: EventFilter

    async def subscribe(self, hub: Hub) -> tuple[Subscription, bool]:
        """Return a subscription, and whether it had to skip events.

        It starts after the position `after`. If the next events have been archived, or the position is of another
        journal, it starts with the next event, and True is returned.
        """
        if self.after is None:
            return Subscription(hub, hub.ring.last, self.filter), False
        with suppress(PositionTooOld):
            if await hub.catch_up_to(self.after):
                await hub.load_back_to(self.after)
                return Subscription(hub, self.after, self.filter), False
        return Subscription(hub, hub.ring.last, self.filter), True


def read(query: dict[str, list[str]], visible: Collection[str], last_event_id: str = "") -> StreamParams:
    """Read the filters, which are those of the list of events, and the start of a stream; raises Invalid.

    A browser that reconnects sends the position of its last event as `last_event_id`, which replaces `after`.
    """
    params = QueryParams(query, *FILTERS, "after")
    chosen: dict[str, Any] = {name: params.get_texts(name) for name in FILTERS}
    Filters(**chosen).check()
    chosen["entity_type"] = narrow_to_visible(chosen["entity_type"], visible)
    start = QueryParams({"after": [last_event_id]}, "after") if last_event_id else params
    event_filter = EventFilter(**{name: frozenset(values) for name, values in chosen.items()})
    return StreamParams(start.get_number("after"), event_filter)
