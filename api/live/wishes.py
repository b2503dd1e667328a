"""Which events somebody wants to be told of, and after which position: read from an address."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from statecore.history import Filters
from statecore.live import Following, Hub, Wanted

from ..permissions import narrowed_to
from ..screens.journal import FILTERS
from ..screens.parameters import Query


class Wishes(NamedTuple):
    after: int | None
    wanted: Wanted

    async def following(self, hub: Hub) -> tuple[Following, bool]:
        """From there on, or from now on with True when what follows is too much or unknown here."""
        if self.after is None:
            return Following(hub, hub.ring.last, self.wanted), False
        if await hub.reach(self.after) and await hub.reach_back(self.after):
            return Following(hub, self.after, self.wanted), False
        return Following(hub, hub.ring.last, self.wanted), True


def read(query: dict[str, list[str]], seen: Collection[str], last_event_id: str = "") -> Wishes:
    """As the list reads them. A stream that was lost says where it stood, which is later than its address says."""
    asked = Query(query, *FILTERS, "after")
    chosen: dict[str, Any] = {name: asked.words(name) for name in FILTERS}
    Filters(**chosen).check()
    chosen["entity_type"] = narrowed_to(chosen["entity_type"], seen)
    stood = Query({"after": [last_event_id]}, "after") if last_event_id else asked
    wanted = Wanted(**{name: frozenset(values) for name, values in chosen.items()})
    return Wishes(stood.number("after"), wanted)
