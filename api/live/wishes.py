"""Which events somebody wants to be told of, and after which position: read from an address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from statecore.history import Filters
from statecore.kernel.refusals import Invalid
from statecore.live import Following, Hub, Wanted

from ..permissions import narrowed_to

NAMES = ("entity_type", "entity", "run", "actor", "kind", "severity")
LONGEST_NUMBER = 18


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


def read(query: Mapping[str, list[str]], seen: Collection[str], last_event_id: str = "") -> Wishes:
    """A stream that was lost says where it stood, which is later than what its address says."""
    chosen: dict[str, Any] = {
        name: [value for each in query.get(name, []) for value in each.split(",")] for name in NAMES
    }
    Filters(**chosen).check()
    chosen["entity_type"] = narrowed_to(chosen["entity_type"], seen)
    after = last_event_id or (query["after"][-1] if "after" in query else "")
    wanted = Wanted(**{name: frozenset(values) for name, values in chosen.items()})
    return Wishes(position(after) if after else None, wanted)


def position(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise Invalid({"after": ["must be a position: a whole number, 0 or more."]})
    return int(text)
