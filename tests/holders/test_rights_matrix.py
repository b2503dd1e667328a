"""Every transition of every machine by its holder, other agents and integrators, an operator and the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

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


def kinds_of(flow: Flow, state: str, move: Transition) -> set[Kind]:
    return {kind for each in flow.open_transitions(state, move.trigger) for kind in each.actors}


def expected(flow: Flow, state: str, move: Transition, caller: str) -> str:
    """Returns the code of the refusal, or an empty string."""
    actor = CALLERS[caller]
    if actor.kind not in kinds_of(flow, state, move):
        return "permission_denied"
    is_held = state not in flow.free_in
    return "not_the_holder" if actor.holds and is_held and actor.identity != HOLDER else ""


def name_of(edge: tuple[Flow, str, Transition]) -> str:
    flow, state, move = edge
    return f"{flow.entity_type}: {state} {move.trigger} {move.target}"


@pytest.fixture(autouse=True)
def no_reactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "reactions", [])


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


@pytest.mark.parametrize(("flow", "state", "move"), EDGES, ids=map(name_of, EDGES))
def test_a_transition_is_open_to_those_who_may(flow: Flow, state: str, move: Transition, clock: Clock) -> None:
    entity = worlds.bring_to(flow, state, clock)
    if state not in flow.free_in:
        entity = world.touched(entity, holder=HOLDER)
    for caller in CALLERS:
        with rolled_back():
            check_caller(entity, flow, state, move, caller, clock)


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def check_caller(entity: Any, flow: Flow, state: str, move: Transition, caller: str, clock: Clock) -> None:
    params, actor = worlds.prepared(worlds.PREPARE, move, entity, clock), CALLERS[caller]
    before, refused = world.trace(entity), None
    try:
        outcome: Any = transitions.transition(flow.model, entity.pk, move.trigger, actor=actor, params=params)
    except Refusal as refusal:
        refused = refusal
    assert (refused.code if refused else "") == expected(flow, state, move, caller), caller
    if refused:
        assert world.trace(entity) == before
        assert set(refused.facts.get("required", kinds_of(flow, state, move))) == kinds_of(flow, state, move)
    else:
        kept = "" if state in flow.free_in else HOLDER
        after = "" if move.target in flow.free_in else actor.identity if actor.holds else kept
        assert outcome.entity.holder == after, caller
