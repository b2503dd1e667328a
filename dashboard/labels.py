"""Words for buttons and headings, derived from the machines' declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statecore.bulk import BulkAction
from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.kernel.transition import Transition

PARTICLES = {"back", "down", "off", "out", "up"}  # `shut down` is one verb, and `roll back`


def noun(entity_type: str) -> str:
    """`gate`, `agent job`: one entity of a machine."""
    return registry.flow(entity_type).event_noun.replace("_", " ").replace("uet", "UET")


def count_noun(count: int, flow: Flow) -> str:
    """`1 patch`, `2 patches`: the plural is the collection's name."""
    plural = flow.collection.replace("-", " ").replace("uet", "UET")
    return f"1 {noun(flow.entity_type)}" if count == 1 else f"{count:,} {plural}"


def action_label(flow: Flow, trigger: str, state: str = "", count: int | None = None) -> str:
    """The text of a button for a trigger: `Cancel task`, `Cancel 200 tasks`, `Schedule retry`.

    The verb is the name of the declared transition; with a state, of the one that leaves that state.
    """
    verb = _verb([each for each in flow.transitions if each.trigger == trigger], state)
    what = noun(flow.entity_type) if count is None else count_noun(count, flow)
    words = verb.split()
    if len(words) == 1 or words[-1] in PARTICLES:
        return f"{verb.capitalize()} {what}"
    return verb.capitalize() if count is None else f"{verb.capitalize()} for {what}"


def bulk_label(action: BulkAction, count: int) -> str:
    """The text of the button of a bulk action: `Cancel 200 tasks`, `Force 3 tasks to failed`."""
    flow, request = action.flow, action.request
    if request.trigger:
        return action_label(flow, request.trigger, count=count)
    if request.to_state:
        return f"Force {count_noun(count, flow)} to {humanize_state(request.to_state)}"
    return f"{request.action.capitalize()} {count_noun(count, flow)}"


def _verb(declared: list[Transition], state: str) -> str:
    leaving = [each.name for each in declared if state in each.sources] or [declared[0].name]
    # `requeue_after_failure` is `requeue` from another state: the shorter name is the verb.
    names = [each.name for each in declared if leaving[0].startswith(each.name)]
    return min(names, key=len).strip("_").replace("_", " ")


def humanize(name: str) -> str:
    """`user_cancelled` as `User cancelled`."""
    return name.replace("_", " ").capitalize()


def humanize_state(state: str) -> str:
    return state.lower().replace("_", " ")


# Codes of refusals that the state alone causes.
WRONG_STATE = {"invalid_transition", "terminal_state", "already_in_state"}


def refusal_text(refusal: Mapping[str, Any], flow: Flow, trigger: str) -> str:
    """`Can't cancel a queued task` where the state is the cause, otherwise the refusal's own sentence."""
    state = refusal.get("state")
    if refusal["code"] not in WRONG_STATE or not state or not any(each.trigger == trigger for each in flow.transitions):
        return str(refusal["detail"])
    verb = _verb([each for each in flow.transitions if each.trigger == trigger], state)
    described = humanize_state(state)
    article = "an" if described[0] in "aeiou" else "a"
    return f"Can't {verb} {article} {described} {noun(flow.entity_type)}."


def guard_label(name: str) -> str:
    """`dependencies_are_completed` as words; an edge that is not declared is `no such transition`."""
    return "no such transition" if name.startswith("no_edge_from_") else name.replace("_", " ")


CHANNELS = {"rest": "API", "cli": "command line"}


def channel_label(channel: str) -> str:
    """The channel of an event as in `operator via API`."""
    return CHANNELS.get(channel, channel)
