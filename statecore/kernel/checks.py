"""Start-up checks with stable ids: a declaration that cannot work is refused before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from . import registry
from .flow import Flow

VERSION = re.compile(r"\d+\.\d+\.\d+")
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def states_are_reachable(flow: Flow) -> Iterator[str]:
    reached, frontier = {flow.initial}, [flow.initial]
    while frontier:
        here = frontier.pop()
        ahead = {move.target for move in flow.moves if here in move.sources} - reached
        reached |= ahead
        frontier += ahead
    yield from (f"state {state} cannot be reached" for state in flow.states if state not in reached)


def final_states_are_left_by_decision_only(flow: Flow) -> Iterator[str]:
    for move in flow.moves:
        leaves = [source for source in move.sources if flow.is_final(source)]
        if leaves and not move.leaves_final:
            yield f"{move.name} leaves the final state {leaves[0]}, and no decision allows it"
        if move.leaves_final and not leaves:
            yield f"{move.name} claims to leave a final state, and has none among its sources"


def states_have_a_deadline_or_rest(flow: Flow) -> Iterator[str]:
    for state in flow.states:
        if flow.is_final(state) == (state in flow.timing):
            yield f"state {state} " + (
                "is final and has a deadline" if state in flow.timing else "has no deadline or rest"
            )


def live_states_have_a_way_out(flow: Flow) -> Iterator[str]:
    left = {source for move in flow.moves for source in move.sources}
    yield from (
        f"state {state} is not final and has no way out" for state in flow.states if state not in left | set(flow.final)
    )


def names_are_known(flow: Flow) -> Iterator[str]:
    used = {*flow.final, *flow.done, *flow.timing, *flow.measured_from, flow.initial}
    used |= {name for move in flow.moves for name in (*move.sources, move.target)}
    yield from (f"{name} is not a state" for name in sorted(used - set(flow.states)))


def version_is_semantic(flow: Flow) -> Iterator[str]:
    if VERSION.fullmatch(flow.version) is None:
        yield f"{flow.version!r} is not a semantic version"


def names_need_no_escape(flow: Flow) -> Iterator[str]:
    """They are written into the canonical bytes of events as they are."""
    names = [*flow.states, *flow.triggers, flow.entity_type]
    yield from (f"{name!r} is not a plain identifier" for name in names if IDENTIFIER.fullmatch(name) is None)


def same_trigger_takes_the_same_fields(flow: Flow) -> Iterator[str]:
    for trigger in flow.triggers:
        for state in flow.states:
            if len({move.params for move in flow.open_moves(state, trigger)}) > 1:
                yield f"the moves of {trigger} from {state} take different fields"


CHECKS: dict[str, Callable[[Flow], Iterable[str]]] = {
    "statecore.E001": states_are_reachable,
    "statecore.E002": final_states_are_left_by_decision_only,
    "statecore.E003": states_have_a_deadline_or_rest,
    "statecore.E004": live_states_have_a_way_out,
    "statecore.E005": names_are_known,
    "statecore.E006": version_is_semantic,
    "statecore.E007": names_need_no_escape,
    "statecore.E008": same_trigger_takes_the_same_fields,
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
    """A typo would otherwise switch a deadline or a second person off without a word."""
    known = {f"{flow.entity_type}.{state}" for flow in registry.flows() for state in flow.states}
    edges = {f"{state}->{target}" for state in known for target in _states_beside(state)}
    wrong = [(name, "STATECORE_DEADLINES") for name in settings.STATECORE_DEADLINES if name not in known]
    wrong += [(edge, "STATECORE_SECOND_PERSON") for edge in settings.STATECORE_SECOND_PERSON if edge not in edges]
    return [Error(f"{setting} names {name!r}, which does not exist", id="statecore.E009") for name, setting in wrong]


def _states_beside(state: str) -> tuple[str, ...]:
    return registry.flow(state.partition(".")[0]).states
