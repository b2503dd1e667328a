"""Every transition of every machine by its holder, other agents and integrators, an operator and the system."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Refusal
from statecore.kernel.transition import Transition
from tests.machines import worlds
from tests.machines.worlds import Clock
from tests.support import world

pytestmark = pytest.mark.django_db

OWNER, OTHER_OWNER = 1, 2


def program(kind: Kind, token: str, owner: int) -> Actor:
    return Actor(f"{kind} {token}", kind, Channel.REST, token=token, owner=owner)


# What a caller is to an entity that `stc_holder` holds.
CALLERS = {
    "holder": program(Kind.AGENT, "stc_holder", OWNER),
    "other agent of the same owner": program(Kind.AGENT, "stc_second", OWNER),
    "agent of another owner": program(Kind.AGENT, "stc_foreign", OTHER_OWNER),
    "holding integrator": program(Kind.INTEGRATOR, "stc_holder", OWNER),
    "other integrator of the same owner": program(Kind.INTEGRATOR, "stc_second", OWNER),
    "integrator of another owner": program(Kind.INTEGRATOR, "stc_foreign", OTHER_OWNER),
    "operator": world.operator(),
    "system": THE_SYSTEM,
}
HOLDER = "token:stc_holder"
EDGES = [(flow, state, move) for flow in worlds.flows() for move in flow.transitions for state in move.sources]
CELLS = [(*edge, caller) for edge, caller in product(EDGES, CALLERS)]


def expected(flow: Flow, state: str, move: Transition, caller: str) -> str:
    """Returns the code of the refusal, or an empty string."""
    kinds = {kind for each in flow.open_transitions(state, move.trigger) for kind in each.actors}
    actor = CALLERS[caller]
    if actor.kind not in kinds:
        return "permission_denied"
    is_held = state not in flow.free_in
    return "not_the_holder" if actor.holds and is_held and actor.identity != HOLDER else ""


def name_of(cell: tuple[Flow, str, Transition, str]) -> str:
    flow, state, move, caller = cell
    return f"{flow.entity_type}: {state} {move.trigger} {move.target} by {caller}"


@pytest.fixture(autouse=True)
def no_reactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "reactions", [])


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


@pytest.mark.parametrize(("flow", "state", "move", "caller"), CELLS, ids=map(name_of, CELLS))
def test_a_transition_is_open_to_those_who_may(
    flow: Flow, state: str, move: Transition, caller: str, clock: Clock
) -> None:
    entity = worlds.bring_to(flow, state, clock)
    if state not in flow.free_in:
        entity = world.touched(entity, holder=HOLDER)
    params, actor = worlds.prepared(worlds.PREPARE, move, entity, clock), CALLERS[caller]
    before, code = world.trace(entity), ""
    try:
        outcome: Any = transitions.transition(flow.model, entity.pk, move.trigger, actor=actor, params=params)
    except Refusal as refusal:
        code = refusal.code
    assert code == expected(flow, state, move, caller)
    if code:
        assert world.trace(entity) == before
    else:
        kept = "" if state in flow.free_in else HOLDER
        after = "" if move.target in flow.free_in else actor.identity if actor.holds else kept
        assert outcome.entity.holder == after
