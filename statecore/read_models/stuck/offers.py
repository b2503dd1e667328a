"""What an actor may decide about a stuck entity: retry its root cause, fire a trigger, or force it to fail."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from ...kernel.actors import OPERATOR as OPERATOR_KIND
from ...kernel.actors import Actor
from ...kernel.entity import Entity
from ...scheduling.recovery import OPERATOR
from ...transitions.retry import may_retry
from .listing import Item
from .sources import Kind


class Action(StrEnum):
    """Named after the call of the API."""

    RETRY = "retry"
    TRANSITION = "transition"
    OVERRIDE = "override"
    WAIVE = "waive"


class Offer(NamedTuple):
    action: Action
    entity: Entity
    trigger: str = ""
    to_state: str = ""

    def as_dict(self) -> dict[str, Any]:
        flow = self.entity.flow
        target = {"entity_type": flow.entity_type, "collection": flow.collection, "id": self.entity.pk}
        given = {"trigger": self.trigger, "to_state": self.to_state}
        return {"action": self.action.value, **target, **{name: value for name, value in given.items() if value}}


def list_offers(item: Item, actor: Actor | None) -> list[Offer]:
    """Returns the actions that apply now and that the actor may take; none if the recovery needs no operator."""
    if actor is None or actor.kind is not OPERATOR_KIND or item.recovery.mode != OPERATOR:
        return []
    return [*_offer_retry(item, actor), *_offer_triggers(item, actor), *_offer_failure(item, actor)]


def serialize_item(item: Item, actor: Actor | None) -> dict[str, Any]:
    """Returns an item as the API shows it, with the actions that this actor may take."""
    shown = item.as_dict()
    return {
        **shown,
        "recovery": {**shown["recovery"], "actions": [each.as_dict() for each in list_offers(item, actor)]},
    }


def _offer_retry(item: Item, actor: Actor) -> Iterator[Offer]:
    root = item.recovery.retry
    if root is not None and may_retry(root, actor):
        yield Offer(Action.RETRY, root)


def _offer_triggers(item: Item, actor: Actor) -> Iterator[Offer]:
    if actor.has_permission(item.entity.flow.permission("operate")):
        yield from (Offer(Action.TRANSITION, item.entity, trigger=trigger) for trigger in item.recovery.triggers)


def _offer_failure(item: Item, actor: Actor) -> Iterator[Offer]:
    """Offers to fail an entity that needs a decision: no trigger does that."""
    flow = item.entity.flow
    if item.kind is Kind.NEEDS_DECISION and actor.has_permission(flow.permission("override")):
        for state in sorted({*flow.failures} & {*flow.final}):
            if flow.may_force(item.entity.state, state):
                yield Offer(Action.OVERRIDE, item.entity, to_state=state)
