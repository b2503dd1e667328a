"""What a gate waits for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ...kernel.entity import Entity
from ...machines.test_gate import State, TestGate
from .. import words
from .wait import Cause, Wait, first_wait

SHUT = {State.FAILED, State.BLOCKED}


def cause(gate: TestGate, at: datetime) -> Cause:
    if gate.state == State.RUNNING:
        return words.standing(
            gate, at, f"its time-out {words.until(gate.times_out_at, at)}" if gate.times_out_at else ""
        )
    if gate.abandoned:
        return words.standing(gate, at, f"its workstream {gate.workstream_id} has ended")
    return waiting_for(gate, "depends_on") or words.standing(gate, at, "nobody has started it")


def waiting_for(entity: Entity, link: str, only: Iterable[str] = ()) -> Wait | None:
    """The gate at the other end that has not passed, and whether it blocks or is only not there yet."""
    found = first_wait("waits for", entity, link, done={State.PASSED}, only=only)
    return Wait("blocked by", found.entity, found.others) if found and found.entity.state in SHUT else found
