"""Every trigger in every state of every machine: it succeeds and is recorded, or is refused and leaves no trace."""

from collections.abc import Iterator
from itertools import product

import pytest

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import GuardFailed, Refusal
from statecore.kernel.transition import Transition
from tests.machines import worlds
from tests.machines.worlds import Clock, bring_to, make, prepared
from tests.support import world

pytestmark = pytest.mark.django_db


def already_true(flow: Flow, state: str, trigger: str) -> bool:
    return any(move.trigger == trigger and move.target == state for move in flow.transitions)


STATES = [(flow, state) for flow in worlds.flows() for state in flow.states]
CELLS = [(flow, *cell) for flow in worlds.flows() for cell in product(flow.states, flow.triggers)]
SHUT = [cell for cell in CELLS if not cell[0].open_transitions(*cell[1:])]
NO_OPS = [cell for cell in SHUT if cell[0].repeats_are_noops and already_true(*cell)]
REFUSED = [cell for cell in SHUT if cell not in NO_OPS]
EDGES = [(flow, state, move) for flow in worlds.flows() for move in flow.transitions for state in move.sources]
GUARDED = [
    (flow, state, move)
    for flow, state, move in EDGES
    if move.guards and (flow.entity_type, move.trigger, state) not in worlds.ALWAYS_HOLD
]


def cell_id(flow: Flow, state: str, trigger: str) -> str:
    return f"{flow.entity_type}: {state} × {trigger}"  # noqa: RUF001


def edge_id(flow: Flow, state: str, move: Transition) -> str:
    return f"{cell_id(flow, state, move.trigger)} → {move.target}"


def each(names: str, cases: list, name_of) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(names, cases, ids=[name_of(*case) for case in cases])


@pytest.fixture(autouse=True)
def no_reactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves each transition without consequences: other tests cover the reactions."""
    monkeypatch.setattr(registry, "reactions", [])


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


@each(
    "flow, state, move, kind",
    [(*edge, kind) for edge in EDGES for kind in sorted(edge[2].actors)],
    lambda flow, state, move, kind: f"{edge_id(flow, state, move)} by {kind}",
)
def test_an_open_transition_succeeds_and_is_recorded(flow, state, move, kind, clock) -> None:
    entity = bring_to(flow, state, clock)

    outcome = make(move, entity, clock, kind)

    event = world.last_event(entity)
    answer = (event["trigger"], event["from_state"], event["to_state"], event["severity"])
    assert answer == (move.trigger, state, move.target, move.severity)
    assert event["sequence"] == outcome.entity.version == len(world.events_of(entity))
    stored = flow.model.objects.get(pk=entity.pk)
    assert (stored.state, stored.version, stored.chain_head) == (
        move.target,
        event["version"],
        event["hash"],
    )


@pytest.mark.parametrize(("flow", "state"), STATES, ids=lambda value: getattr(value, "entity_type", value))
def test_closed_transitions_are_refused_and_leave_no_trace(flow, state, clock) -> None:
    entity = bring_to(flow, state, clock)
    before = world.trace(entity)

    for trigger in (trigger for *place, trigger in REFUSED if place == [flow, state]):
        with pytest.raises(Refusal) as refused:
            transitions.transition(flow.model, entity.pk, trigger, actor=world.operator())

        assert refused.value.code == expected_code(flow, state, trigger), trigger
        standing = {"state": state, "version": entity.version, "allowed": flow.allowed(state)}
        assert refused.value.facts == standing, trigger
    assert world.trace(entity) == before


def expected_code(flow: Flow, state: str, trigger: str) -> str:
    if already_true(flow, state, trigger):
        return "already_in_state"
    return "terminal_state" if state in flow.final else "invalid_transition"


@each("flow, state, trigger", NO_OPS, cell_id)
def test_a_repeat_that_is_already_true_changes_nothing(flow, state, trigger, clock) -> None:
    entity = bring_to(flow, state, clock)
    before = world.trace(entity)

    outcome = transitions.transition(flow.model, entity.pk, trigger, actor=THE_SYSTEM)

    assert (outcome.changed, outcome.entry, outcome.entity.state) == (False, None, state)
    assert world.trace(entity) == before


@each("flow, state, move", GUARDED, edge_id)
def test_a_guard_that_does_not_hold_refuses_with_its_reason_and_leaves_no_trace(flow, state, move, clock) -> None:
    entity = bring_to(flow, state, clock)
    params = prepared(worlds.SPOIL, move, entity, clock)
    before = world.trace(entity)
    actor = world.actor_of_kind(sorted(move.actors)[-1])

    with pytest.raises(GuardFailed) as refused:
        transitions.transition(flow.model, entity.pk, move.trigger, actor=actor, params=params)

    assert refused.value.unmet
    assert all(reason.code and reason.detail for reason in refused.value.unmet)
    assert refused.value.facts["state"] == state
    assert world.trace(entity) == before


@each("flow, state, move", EDGES, edge_id)
def test_a_batch_makes_the_same_transition(flow, state, move, clock) -> None:
    entity = bring_to(flow, state, clock)
    params = prepared(worlds.PREPARE, move, entity, clock)
    actor = world.actor_of_kind(worlds._default_kind(move))

    (item,) = transitions.transition_many(flow.model, [entity.pk], move.trigger, actor=actor, params=params)

    assert item.refusal is None
    assert item.outcome.entity.state == move.target == world.last_event(entity)["to_state"]


@pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)
def test_an_unknown_trigger_is_refused_with_the_known_ones(flow, clock) -> None:
    entity = worlds.create_entity(flow)
    before = world.trace(entity)

    with pytest.raises(Refusal) as refused:
        transitions.transition(flow.model, entity.pk, "explode", actor=THE_SYSTEM)

    assert refused.value.code == "unknown_trigger"
    assert refused.value.facts["triggers"] == list(flow.triggers)
    assert world.trace(entity) == before


@pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)
def test_every_state_can_be_reached_by_declared_transitions(flow, clock) -> None:
    assert {bring_to(flow, state, clock).state for state in flow.states} == set(flow.states)


def test_every_guarded_transition_has_a_situation_in_which_it_is_refused() -> None:
    guarded = {(flow.entity_type, move.trigger, move.target) for flow, _state, move in GUARDED}
    missing = guarded - worlds.SPOIL.keys()
    assert not missing, f"SPOIL in tests/machines/worlds.py must make a guard of these fail: {sorted(missing)}"


def test_the_prepared_situations_belong_to_declared_transitions() -> None:
    declared = {(flow.entity_type, move.trigger, move.target) for flow, _state, move in EDGES}
    assert (worlds.PREPARE.keys() | worlds.SPOIL.keys()) - declared == set()


def test_a_repeat_is_a_no_op_only_where_the_machine_declares_it() -> None:
    assert {flow.entity_type for flow, *_cell in NO_OPS} == {
        flow.entity_type for flow in worlds.flows() if flow.repeats_are_noops
    }


def test_the_matrix_is_complete() -> None:
    open_cells = {(flow.entity_type, state, move.trigger) for flow, state, move in EDGES}
    shut_cells = {(flow.entity_type, state, trigger) for flow, state, trigger in SHUT}
    assert open_cells.isdisjoint(shut_cells)
    assert len(open_cells) + len(shut_cells) == len(CELLS)
    assert {flow.entity_type for flow, *_cell in CELLS} == {flow.entity_type for flow in worlds.flows()}
