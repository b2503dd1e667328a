"""Which entity a request is about, read off its path: so lines about an address that leads nowhere name it too."""

from __future__ import annotations

import re

from ..kernel import registry
from ..kernel.ulid import ID_PATTERN

ENTITY = re.compile(rf"/(?:api/v1/)?(?P<collection>[a-z-]+)/(?P<id>{ID_PATTERN.pattern})/")
NO_IDS = {"submit", "bulk-transitions"}


def entity_of(path: str) -> dict[str, str]:
    found = ENTITY.match(path)
    if found is None or found["id"] in NO_IDS:
        return {}
    for flow in registry.flows():
        if flow.collection == found["collection"]:
            return {"entity_type": flow.entity_type, "entity_id": found["id"]}
    return {}
