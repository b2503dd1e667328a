"""Removes machines that a user may not see from explanations: their names, states and numbers."""

from __future__ import annotations

from collections.abc import Collection

from ...kernel.entity import Entity
from ...kernel.refusals import Unmet

VisibleMachines = Collection[str] | None  # the entity types that a user may see; None for all
HIDDEN = "an entity you cannot access"


def is_visible(visible: VisibleMachines, entity_type: str) -> bool:
    return visible is None or entity_type in visible


def redact_unmet(unmet: Unmet, entity: Entity, visible: VisibleMachines) -> Unmet:
    """Returns the reason without its text if it is about a machine that is not visible.

    The code is kept: it reveals no more than the declaration of the machine.
    """
    subject = unmet.entity_type or entity.flow.entity_type
    return unmet if is_visible(visible, subject) else Unmet(unmet.code, f"it waits for {HIDDEN}")
