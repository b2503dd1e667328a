"""The parameters of an event stream: filters, and the position to resume from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from statecore.delivery.live import EpochEnded, EventFilter, Hub, PositionTooOld, Subscription, check_shared
from statecore.journal.epochs import Cursor
from statecore.kernel.refusals import Unavailable
from statecore.read_models.history import Filters

from ..access import narrow_to_visible
from ..monitoring.journal import FILTERS
from ..query_params import QueryParams


class StreamParams(NamedTuple):
    after: Cursor | None
    filter: EventFilter

    async def check_epoch(self, hub: Hub) -> None:
        """Raise Unavailable if the cursor is of a later epoch: this process still reads the database before it."""
        epoch = self.after.epoch if self.after else None
        if epoch is not None and not await hub.catch_up_to_epoch(epoch):
            detail = f"this process reads epoch {hub.epoch} of the journal, which epoch {epoch} has replaced"
            raise Unavailable(detail, retry_after=5, epoch=hub.epoch)

    async def subscribe(self, hub: Hub) -> tuple[Subscription, PositionTooOld | None]:
        """Return a subscription, and why it had to skip events.

        It starts after the position `after`. If the next events have been archived, or the position is of another
        journal or lost by a failover, it starts with the next event.
        """
        newest = Subscription(hub, hub.ring.last, self.filter)
        if self.after is None:
            return newest, None
        try:
            if self.after.epoch is not None and self.after.epoch != hub.epoch:
                await check_shared(hub, self.after.epoch, self.after.position)
            if await hub.catch_up_to(self.after.position):
                await hub.load_back_to(self.after.position)
                return Subscription(hub, self.after.position, self.filter), None
        except PositionTooOld as reason:
            newest.skip_to_end()
            return newest, reason
        newest.skip_to_end()
        return newest, PositionTooOld()


def describe_skip(reason: PositionTooOld) -> dict[str, Any]:
    """Return the members of a `resnapshot` that say why events were skipped."""
    if isinstance(reason, EpochEnded):
        return {"reason": "epoch", "kept": reason.kept}
    return {"reason": "not_available"}


def read(query: dict[str, list[str]], visible: Collection[str], last_event_id: str = "") -> StreamParams:
    """Read the filters, which are those of the list of events, and the start of a stream; raises Invalid.

    A browser that reconnects sends the cursor of its last event as `last_event_id`, which replaces `after`.
    """
    params = QueryParams(query, *FILTERS, "after")
    chosen: dict[str, Any] = {name: params.get_texts(name) for name in FILTERS}
    Filters(**chosen).check()
    chosen["entity_type"] = narrow_to_visible(chosen["entity_type"], visible)
    start = QueryParams({"after": [last_event_id]}, "after") if last_event_id else params
    event_filter = EventFilter(**{name: frozenset(values) for name, values in chosen.items()})
    return StreamParams(start.get_cursor("after"), event_filter)
