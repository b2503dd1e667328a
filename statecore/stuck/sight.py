"""What somebody may be told: of a machine they may not see neither a name, a state nor a number."""

from __future__ import annotations

from collections.abc import Collection

from ..kernel.entity import Entity
from ..kernel.refusals import Unmet

Sight = Collection[str] | None  # the machines somebody sees; None for who sees them all
HIDDEN = "something you may not see"


def sees(sight: Sight, entity_type: str) -> bool:
    return sight is None or entity_type in sight


def told(unmet: Unmet, entity: Entity, sight: Sight) -> Unmet:
    """The code stays: the declaration of the machine says as much."""
    about = unmet.entity_type or entity.flow.entity_type
    return unmet if sees(sight, about) else Unmet(unmet.code, f"it waits for {HIDDEN}")
