"""Entities that have to be looked at again, each with the event that is the reason."""

from __future__ import annotations

from collections.abc import Iterable

from ..door.change import Change
from ..journal import Entry

# Nothing for what is looked at only because time has passed.
Causes = dict[str, Entry | None]


def own(changes: Iterable[Change]) -> Causes:
    """Each changed entity itself."""
    return {change.entity.pk: change.entry for change in changes}


def above(changes: Iterable[Change], key: str) -> Causes:
    """What the changed entities belong to, by the last change; `key` is a column such as `workstream_id`."""
    parents = ((change.entity.__dict__[key], change.entry) for change in changes)
    return {parent: entry for parent, entry in parents if parent is not None}


def handed_on(pairs: Iterable[tuple[str, str]], causes: Causes) -> Causes:
    """Pairs of (id, id of what changed): the first gets the cause of the second."""
    return {entity_id: causes[changed] for entity_id, changed in pairs}
