"""The suggested actions of an incident: what removes its cause, before what only ends what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from ...kernel import registry
from ...kernel.actors import OPERATOR as OPERATOR_KIND
from ...kernel.actors import THE_SYSTEM
from ...kernel.entity import Entity
from ...kernel.flow import Rest
from ...transitions.retry import may_retry
from ..stuck import Action, Kind
from ..stuck.chain import Link
from ..stuck.transition_checks import check_transitions

PERMISSIONS = {
    Action.RETRY: "operate", Action.TRANSITION: "operate", Action.WAIVE: "waive", Action.OVERRIDE: "override",
}  # fmt: skip


class Suggestion(NamedTuple):
    """An action on an entity, named after the call of the API."""

    action: Action
    entity_type: str
    entity_id: str
    state: str
    trigger: str = ""
    to_state: str = ""

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> Suggestion:
        return cls(**{**stored, "action": Action(stored["action"])})

    def as_dict(self) -> dict[str, Any]:
        flow = registry.flow(self.entity_type)
        target = {"entity_type": self.entity_type, "collection": flow.collection, "id": self.entity_id}
        given = {"trigger": self.trigger, "to_state": self.to_state}
        return {"action": self.action.value, **target, **{name: value for name, value in given.items() if value}}


def suggest_actions(entity: Entity, links: list[Link], kind: Kind, at: datetime) -> list[Suggestion]:
    """Returns the actions for an entity that hangs on a cause, the best one first, whatever permissions they need.

    To force a state is suggested only if no other action applies.
    """
    if kind is Kind.NEEDS_APPROVAL:
        return []
    root = links[-1].entity
    found = [*_suggest_for_root(root, at)] if links[-1].shared is None else []
    if kind is Kind.NEEDS_DECISION and root.pk != entity.pk:
        found += [*_suggest_triggers(entity, at), *_suggest_failure(entity)]
    if not found and links[-1].shared is None and not root.flow.is_final(root.state):
        found.append(Suggestion(Action.OVERRIDE, root.flow.entity_type, root.pk, root.state))
    return list(dict.fromkeys(found))


def allow_suggestions(stored: list[dict[str, Any]], has_permission: Callable[[str], bool]) -> list[Suggestion]:
    """Returns those of the stored suggestions for which an operator has the permission."""
    known = {flow.entity_type: flow for flow in registry.flows()}
    found = [Suggestion.parse(each) for each in stored if each["entity_type"] in known]
    return [each for each in found if has_permission(known[each.entity_type].permission(PERMISSIONS[each.action]))]


def _suggest_for_root(root: Entity, at: datetime) -> Iterator[Suggestion]:
    flow = root.flow
    if may_retry(root, THE_SYSTEM):
        yield Suggestion(Action.RETRY, flow.entity_type, root.pk, root.state)
    if flow.may_be_waived() and flow.is_final(root.state):
        yield Suggestion(Action.WAIVE, flow.entity_type, root.pk, root.state)
    if not flow.is_final(root.state):
        yield from _suggest_triggers(root, at)


def _suggest_triggers(entity: Entity, at: datetime) -> Iterator[Suggestion]:
    """Yields what operators may fire without further fields; a state of rest would only postpone the decision."""
    flow = entity.flow
    for check in check_transitions(entity, at, by=OPERATOR_KIND):
        if check.allowed and not check.needs and not isinstance(flow.timing.get(check.to_state), Rest):
            yield Suggestion(Action.TRANSITION, flow.entity_type, entity.pk, entity.state, trigger=check.trigger)


def _suggest_failure(entity: Entity) -> Iterator[Suggestion]:
    flow = entity.flow
    for state in sorted({*flow.failures} & {*flow.final}):
        if flow.may_force(entity.state, state):
            yield Suggestion(Action.OVERRIDE, flow.entity_type, entity.pk, entity.state, to_state=state)
