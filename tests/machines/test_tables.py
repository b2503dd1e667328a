"""The declared machines equal the specified ones in tables.py."""

import pytest

from statecore.kernel import registry
from statecore.kernel.flow import Flow
from tests.machines.tables import TABLES, Edge, Table, edges

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

every_machine = pytest.mark.parametrize("name", sorted(TABLES))
every_counted_machine = pytest.mark.parametrize("name", sorted(name for name in TABLES if TABLES[name].counts))


def declared_edges(flow: Flow) -> set[Edge]:
    return {(source, move.target, move.trigger) for move in flow.transitions for source in move.sources}


def severities(flow: Flow) -> dict[Edge, str]:
    return {
        (source, move.target, move.trigger): str(move.severity) for move in flow.transitions for source in move.sources
    }


def both(name: str) -> tuple[Flow, Table]:
    return registry.flow(name), TABLES[name]


def test_every_table_has_a_machine():
    assert set(TABLES) - {flow.entity_type for flow in registry.flows()} == set()


def test_every_machine_has_a_table():
    ours = {flow.entity_type for flow in registry.flows() if flow.model._meta.app_label == "statecore"}
    missing = ", ".join(sorted(ours - set(TABLES)))
    assert not missing, (
        f"no table for {missing}: write its states and transitions by hand in TABLES of tests/machines/tables.py; "
        "BIRTH, PREPARE and SPOIL of tests/machines/worlds.py take its required fields and guards"
    )


@every_machine
def test_the_states_are_those_specified(name):
    flow, table = both(name)
    assert set(flow.states) == table.state_set
    assert len(flow.states) == len(set(flow.states))


@every_machine
def test_the_initial_state_is_that_specified(name):
    flow, table = both(name)
    assert flow.initial == table.initial


@every_machine
def test_the_final_states_are_those_specified(name):
    flow, table = both(name)
    assert flow.final == table.final_set


@every_machine
def test_every_edge_of_the_table_is_declared(name):
    flow, table = both(name)
    assert table.every_edge - declared_edges(flow) == set()


@every_machine
def test_no_edge_is_declared_that_the_table_does_not_know(name):
    flow, table = both(name)
    assert declared_edges(flow) - table.every_edge == set()


@every_machine
def test_an_edge_and_its_trigger_are_declared_once(name):
    flow, _table = both(name)
    assert sum(len(move.sources) for move in flow.transitions) == len(declared_edges(flow))


@every_counted_machine
def test_the_table_has_as_many_states_and_edges_as_its_change_log_says(name):
    table = TABLES[name]
    assert (len(table.states.split()), len(table.table_pairs)) == table.counts


@every_machine
def test_no_forbidden_transition_is_declared(name):
    flow, table = both(name)
    declared = {(source, target) for source, target, _trigger in declared_edges(flow)}
    assert declared & table.forbidden_pairs == set()


@every_machine
def test_a_final_state_is_left_only_where_a_decision_says_so(name):
    flow, table = both(name)
    assert flow.final_exits() == table.exits


@every_machine
def test_an_exit_from_a_final_state_names_its_decision(name):
    flow, _table = both(name)
    unnamed = [move.name for move in flow.transitions if set(move.sources) & set(flow.final) and not move.leaves_final]
    assert unnamed == []


@every_machine
def test_the_severities_are_those_specified(name):
    flow, table = both(name)
    declared = severities(flow)
    wanted = {next(iter(edges(row))): severity for row, severity in table.severity.items()}
    assert {edge: declared[edge] for edge in wanted} == wanted


@every_machine
def test_what_is_added_to_a_table_is_fired_by_the_system_or_an_operator_only(name):
    flow, table = both(name)
    added = edges(table.added)
    by_agents = [
        (source, move.target, move.trigger)
        for move in flow.transitions
        for source in move.sources
        if "agent" in move.actors and (source, move.target, move.trigger) in added
    ]
    assert by_agents == []
