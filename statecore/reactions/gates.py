"""What follows for gates: a failed gate blocks those that depend on it, until it passes."""

from __future__ import annotations

from ..machines.test_gate import State, TestGate
from .causes import Causes, handed_on
from .consequences import move
from .look import look


def dependents(decided: Causes) -> Causes:
    """Gates that wait for one of these."""
    if not decided:
        return {}
    query = (
        "SELECT link.from_testgate_id, link.to_testgate_id FROM {gate_dependencies} AS link "
        "JOIN {gates} AS gate ON gate.id = link.from_testgate_id "
        "WHERE link.to_testgate_id {ids} AND gate.state IN ('PENDING', 'BLOCKED')"
    )
    return handed_on(look(query, decided), decided)


SITUATION = """
SELECT gate.id, gate.state,
  EXISTS (SELECT 1 FROM {gate_dependencies} AS link JOIN {gates} AS other ON other.id = link.to_testgate_id
          WHERE link.from_testgate_id = gate.id AND other.state = 'FAILED')
FROM {gates} AS gate WHERE gate.id {ids}
"""
NEXT = {(State.PENDING, True): "dependency_gate_failed", (State.BLOCKED, False): "dependency_gate_passed"}


def reconsider(causes: Causes) -> None:
    wanted: dict[str, Causes] = {}
    for gate_id, state, dependency_failed in look(SITUATION, causes) if causes else ():
        if trigger := NEXT.get((state, bool(dependency_failed))):
            wanted.setdefault(trigger, {})[gate_id] = causes[gate_id]
    for trigger, found in wanted.items():
        move(TestGate, trigger, found, reconsider)
