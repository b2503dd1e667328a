"""Reactions of gates: a failed gate blocks the gates that depend on it, until it passes."""

from __future__ import annotations

from ..machines.test_gate import WAITING, State, TestGate
from ..storage.sql_params import quote_states
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import Causes, apply_each, has_linked, related, related_ids, run_query


def awaited(work: UnitOfWork, new: Causes) -> set[str]:
    """Return the gates that these depend on."""
    query = "SELECT DISTINCT to_testgate_id FROM {gate_dependencies} WHERE from_testgate_id {ids}"
    return related_ids(work, query, new)


def dependents(work: UnitOfWork, decided: Causes) -> Causes:
    """Return the waiting gates that depend on one of these."""
    query = (
        "SELECT link.from_testgate_id, link.to_testgate_id FROM {gate_dependencies} AS link "
        "JOIN {gates} AS gate ON gate.id = link.from_testgate_id "
        f"WHERE link.to_testgate_id {{ids}} AND gate.state IN ({quote_states(WAITING)})"
    )
    return related(work, query, decided)


DEPENDENCIES = ("gate_dependencies.from_testgate_id", "gates.to_testgate_id")
SITUATION = f"""
SELECT gate.id, gate.state, {has_linked("gate", *DEPENDENCIES, "other.state = 'FAILED'")}
FROM {{gates}} AS gate WHERE gate.id {{ids}}
"""
NEXT = {(State.PENDING, True): "dependency_gate_failed", (State.BLOCKED, False): "dependency_gate_passed"}


def reevaluate(work: UnitOfWork, causes: Causes) -> None:
    """Block or unblock each of these gates as its dependencies require."""
    found = run_query(work, SITUATION, causes) if causes else []
    due = ((gate_id, NEXT.get((state, bool(failed)))) for gate_id, state, failed in found)
    apply_each(work, TestGate, due, causes, reevaluate)
