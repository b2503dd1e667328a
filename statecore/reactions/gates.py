"""What follows for gates: a failed gate blocks those that depend on it, until it passes."""

from __future__ import annotations

from ..kernel.many import quoted
from ..machines.test_gate import WAITING, State, TestGate
from .causes import Causes, handed_on
from .consequences import move_each
from .look import linked, look


def awaited(new: Causes) -> set[str]:
    """What these wait for."""
    query = "SELECT DISTINCT to_testgate_id FROM {gate_dependencies} WHERE from_testgate_id {ids}"
    return {pk for (pk,) in look(query, new)} if new else set()


def dependents(decided: Causes) -> Causes:
    """Gates that wait for one of these."""
    if not decided:
        return {}
    query = (
        "SELECT link.from_testgate_id, link.to_testgate_id FROM {gate_dependencies} AS link "
        "JOIN {gates} AS gate ON gate.id = link.from_testgate_id "
        f"WHERE link.to_testgate_id {{ids}} AND gate.state IN ({quoted(WAITING)})"
    )
    return handed_on(look(query, decided), decided)


DEPENDENCIES = ("gate_dependencies.from_testgate_id", "gates.to_testgate_id")
SITUATION = f"""
SELECT gate.id, gate.state, {linked("gate", *DEPENDENCIES, "other.state = 'FAILED'")}
FROM {{gates}} AS gate WHERE gate.id {{ids}}
"""
NEXT = {(State.PENDING, True): "dependency_gate_failed", (State.BLOCKED, False): "dependency_gate_passed"}


def reconsider(causes: Causes) -> None:
    found = look(SITUATION, causes) if causes else []
    steps = ((gate_id, NEXT.get((state, bool(failed)))) for gate_id, state, failed in found)
    move_each(TestGate, steps, causes, reconsider)
