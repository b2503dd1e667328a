"""Django system checks of the machines' declarations; an error prevents start-up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from . import registry
from .flow import Flow
from .second_person import parse_policy

VERSION = re.compile(r"\d+\.\d+\.\d+")
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def states_are_reachable(flow: Flow) -> Iterator[str]:
    reached, frontier = {flow.initial}, [flow.initial]
    while frontier:
        here = frontier.pop()
        ahead = {transition.target for transition in flow.transitions if here in transition.sources} - reached
        reached |= ahead
        frontier += ahead
    yield from (f"state {state} cannot be reached" for state in flow.states if state not in reached)


def final_states_are_left_only_with_a_reason(flow: Flow) -> Iterator[str]:
    for transition in flow.transitions:
        leaves = [source for source in transition.sources if flow.is_final(source)]
        if leaves and not transition.leaves_final:
            yield f"{transition.name} leaves the final state {leaves[0]} without leaves_final"
        if transition.leaves_final and not leaves:
            yield f"{transition.name} has leaves_final, but none of its sources is final"


def states_have_a_deadline_or_rest(flow: Flow) -> Iterator[str]:
    for state in flow.states:
        if flow.is_final(state) == (state in flow.timing):
            yield f"state {state} " + (
                "is final and has a deadline" if state in flow.timing else "has neither a deadline nor a Rest"
            )


def live_states_can_be_left(flow: Flow) -> Iterator[str]:
    left = {source for transition in flow.transitions for source in transition.sources}
    yield from (
        f"state {state} is not final, but no transition leaves it"
        for state in flow.states
        if state not in left | set(flow.final)
    )


def names_are_known(flow: Flow) -> Iterator[str]:
    used = {*flow.final, *flow.done, *flow.timing, *flow.renewed_in, *flow.free_in, flow.initial}
    used |= {name for transition in flow.transitions for name in (*transition.sources, transition.target)}
    yield from (f"{name} is not a state" for name in sorted(used - set(flow.states)))


def version_is_semantic(flow: Flow) -> Iterator[str]:
    if VERSION.fullmatch(flow.version) is None:
        yield f"{flow.version!r} is not a semantic version"


def names_need_no_escape(flow: Flow) -> Iterator[str]:
    """States, triggers and types are copied unescaped into the canonical bytes of events."""
    names = [*flow.states, *flow.triggers, flow.entity_type]
    yield from (f"{name!r} is not a plain identifier" for name in names if IDENTIFIER.fullmatch(name) is None)


def same_trigger_takes_the_same_fields(flow: Flow) -> Iterator[str]:
    for trigger in flow.triggers:
        for state in flow.states:
            if len({transition.params for transition in flow.open_transitions(state, trigger)}) > 1:
                yield f"the transitions of {trigger} from {state} take different fields"


def links_have_a_digest(flow: Flow) -> Iterator[str]:
    if flow.model._meta.many_to_many and "link_digests" not in {field.name for field in flow.model._meta.fields}:
        yield f"{flow.model.__name__} has links to other entities, but is no LinkedEntity"


CHECKS: dict[str, Callable[[Flow], Iterable[str]]] = {
    "statecore.E001": states_are_reachable,
    "statecore.E002": final_states_are_left_only_with_a_reason,
    "statecore.E003": states_have_a_deadline_or_rest,
    "statecore.E004": live_states_can_be_left,
    "statecore.E005": names_are_known,
    "statecore.E006": version_is_semantic,
    "statecore.E007": names_need_no_escape,
    "statecore.E008": same_trigger_takes_the_same_fields,
    "statecore.E010": links_have_a_digest,
}


def problems(flow: Flow) -> list[CheckMessage]:
    return [
        Error(f"{flow.entity_type}: {sentence}", obj=flow.model, id=check_id)
        for check_id, check in CHECKS.items()
        for sentence in check(flow)
    ]


def machines_are_sound(app_configs: Any, **_: Any) -> list[CheckMessage]:
    return [problem for flow in registry.flows() for problem in problems(flow)]


def settings_name_known_states(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Without this check, a typo would silently disable a deadline or the approval by a second person."""
    known = {f"{flow.entity_type}.{state}" for flow in registry.flows() for state in flow.states}
    wrong = [(name, "STATECORE_DEADLINES") for name in settings.STATECORE_DEADLINES if name not in known]
    known |= {f"{flow.entity_type}.waived" for flow in registry.flows() if flow.may_be_waived()}
    wrong += [
        (text, "STATECORE_SECOND_PERSON")
        for text in settings.STATECORE_SECOND_PERSON
        if (policy := parse_policy(text)) is None or f"{policy.entity_type}.{policy.to_state}" not in known
    ]
    return [Error(f"{setting} names {name!r}, which does not exist", id="statecore.E009") for name, setting in wrong]
