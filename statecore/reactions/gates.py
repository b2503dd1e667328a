"""Reactions of gates: a failed gate blocks the gates that depend on it, and is run again while re-runs remain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import Refusal
from ..machines import workstream
from ..machines.test_gate import WAITING, State, TestGate
from ..storage.sql_params import quote_states
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import Causes, apply_each, has_linked, has_no_successor, related, related_ids, run_query

log = structlog.get_logger(__name__)


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
SELECT gate.id, gate.state, {has_linked("gate", *DEPENDENCIES, "other.state = 'FAILED' AND NOT other.waived")}
FROM {{gates}} AS gate WHERE gate.id {{ids}}
"""
NEXT = {(State.PENDING, True): "dependency_gate_failed", (State.BLOCKED, False): "dependency_gate_passed"}


def reevaluate(work: UnitOfWork, causes: Causes) -> None:
    """Block or unblock each of these gates as its dependencies require."""
    found = run_query(work, SITUATION, causes) if causes else []
    due = ((gate_id, NEXT.get((state, bool(failed)))) for gate_id, state, failed in found)
    apply_each(work, TestGate, due, causes, reevaluate)


def rerun_failed(work: UnitOfWork, changes: list[Change], parents: Mapping[str, tuple[str, str]]) -> None:
    """Run each failed gate again while re-runs remain; `parents` has the states of their workstreams and runs."""
    for change in changes:
        gate: Any = change.entity
        ended = gate.workstream_id in parents and parents[gate.workstream_id][0] in workstream.FINAL
        if gate.state != State.FAILED or gate.reruns >= gate.max_reruns or gate.waived or gate.abandoned or ended:
            continue
        _rerun(work, gate.pk, f"automatic re-run {gate.reruns + 1} of {gate.max_reruns}")


def has_failed_for_good(change: Change) -> bool:
    gate: Any = change.entity
    return gate.state == State.FAILED and gate.reruns >= gate.max_reruns and not gate.waived and not gate.abandoned


def rerun_for_repair(work: UnitOfWork, gate_ids: Iterable[str]) -> None:
    """Run gates again that have rejected work, which is repaired now."""
    for gate_id in sorted(set(gate_ids)):
        _rerun(work, gate_id, "re-run after a repair")


def rejecting(work: UnitOfWork, repaired: Causes) -> set[str]:
    """Return the failed gates of these workstreams."""
    query = (
        "SELECT gate.id FROM {gates} AS gate "
        "WHERE gate.workstream_id {ids} AND gate.state = 'FAILED' AND NOT gate.waived "
        f"AND {has_no_successor('gates', 'gate')}"
    )
    return related_ids(work, query, repaired)


def _rerun(work: UnitOfWork, gate_id: str, reason: str) -> None:
    try:
        transitions.retry(TestGate, gate_id, actor=THE_SYSTEM, reason=reason, within=work)
    except Refusal as refusal:  # retried by an operator, after this reaction was postponed
        log.info("gate_not_rerun", gate=gate_id, code=refusal.code, detail=refusal.detail)
