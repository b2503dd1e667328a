"""The root cause of a stuck entity: the key that it shares with all entities that wait for the same thing."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel import phrasing, registry
from ...kernel.entity import Entity
from ..stuck import Kind
from ..stuck.chain import Link

OWN = "late"  # the first word of the key of entities that wait for nothing but themselves


@dataclass(frozen=True, slots=True)
class RootCause:
    """`entity` is the root cause, if it is one; `about` are the machines that the text contains information about."""

    key: str
    text: str
    entity_type: str
    entity_id: str
    about: tuple[str, ...]


def identify_cause(links: list[Link], kind: Kind) -> RootCause:
    """Returns the root cause at the end of a chain.

    Entities that wait for no other and need no decision share a cause by machine and state: each of them is late.
    """
    root, entity = links[-1], links[-1].entity
    about = tuple(filter(None, (entity.flow.entity_type, root.about)))
    if root.shared is not None:
        entity_type, _space, entity_id = root.shared.key.partition(" ")
        named = (entity_type, entity_id) if _is_machine(entity_type) else ("", "")
        return RootCause(root.shared.key, _capitalize(root.shared.text), *named, about)
    is_final = entity.flow.is_final(entity.state)
    detail = phrasing.describe_failure(entity) if is_final else root.detail.removeprefix("which ")
    text = _capitalize(f"{phrasing.describe_entity(entity)} {detail}")
    if len(links) == 1 and kind is not Kind.NEEDS_DECISION:
        return RootCause(name_own_cause(entity), text, "", "", about)
    return RootCause(name_entity(entity.flow.entity_type, entity.pk), text, entity.flow.entity_type, entity.pk, about)


def name_own_cause(entity: Entity) -> str:
    return f"{OWN} {entity.flow.entity_type}.{entity.state}"


def name_entity(entity_type: str, entity_id: str) -> str:
    return f"{entity_type} {entity_id}"


def describe_own_cause(key: str, count: int) -> str:
    """`12 tasks have been running for longer than expected`."""
    entity_type, _dot, state = key.removeprefix(f"{OWN} ").partition(".")
    things = registry.flow(entity_type).collection.replace("-", " ")
    return f"{count} {things} have been {state.lower().replace('_', ' ')} for longer than expected"


def _is_machine(entity_type: str) -> bool:
    return any(flow.entity_type == entity_type for flow in registry.flows())


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
