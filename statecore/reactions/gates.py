"""What follows for gates: a failed gate blocks those that depend on it, until it passes."""

from __future__ import annotations

from .. import door
from ..machines.test_gate import State, TestGate
from .causes import Causes, handed_on
from .look import look


def block_new(gates: Causes) -> None:
    """A gate that was made to wait for one that has failed already."""
    if not gates:
        return
    query = (
        "SELECT DISTINCT link.from_testgate_id FROM {gate_dependencies} AS link "
        "JOIN {gates} AS gate ON gate.id = link.to_testgate_id "
        "WHERE link.from_testgate_id {ids} AND gate.state = 'FAILED'"
    )
    if blocked := {pk: gates[pk] for (pk,) in look(query, gates)}:
        door.follow_up(TestGate, blocked, "dependency_gate_failed")


def reconsider_dependents(gates: Causes) -> None:
    if not gates:
        return
    query = (
        "SELECT link.from_testgate_id, link.to_testgate_id, gate.state FROM {gate_dependencies} AS link "
        "JOIN {gates} AS gate ON gate.id = link.from_testgate_id "
        "WHERE link.to_testgate_id {ids} AND gate.state IN ('PENDING', 'BLOCKED')"
    )
    rows = look(query, gates)
    # The guards know which of them are to stay.
    for state, trigger in ((State.PENDING, "dependency_gate_failed"), (State.BLOCKED, "dependency_gate_passed")):
        waiting = handed_on([(gate, changed) for gate, changed, its_state in rows if its_state == state], gates)
        if waiting:
            door.follow_up(TestGate, waiting, trigger)
