"""Running test gates: one run each, and failing those whose time is over and whose runner did not say so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings

from .. import door
from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import Refusal
from ..kernel.strides import next_by_time
from ..machines.test_gate import TestGate
from . import allowed, command, holding, repository
from .allowed import NotAllowed
from .due import BATCH, due
from .guard import GRACE
from .repository import Busy

__all__ = ["due", "run", "time_out_gates"]

log = structlog.get_logger(__name__)

# The runner ends the command itself when the time is over, and has its output: it reports first if it is alive.
RUNNERS_GRACE = timedelta(seconds=4 * GRACE)


def run(gate_id: str) -> bool:
    """Start the gate, run its command, report; False where another runner has it or its folder is taken."""
    allowed.require_on()
    if command.runners.stopping:
        return False
    folder = settings.STATECORE_GATE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with repository.shared(folder) as keep:
            gate = holding.take(gate_id)
            if gate is not None:
                with holding.held(gate):
                    result = _result(gate, keep)
                _report(gate, result)
            return gate is not None
    except Busy:
        return False


def _result(gate: TestGate, keep: list[int]) -> command.Result:
    try:
        arguments = allowed.arguments(gate.command)
    except NotAllowed as refused:
        return command.Result(refused.exit_code, stderr=str(refused), ran=False)
    return command.run(arguments, folder=settings.STATECORE_GATE_FOLDER, timeout=gate.timeout_sec, keep=keep)


def _report(gate: TestGate, result: command.Result) -> None:
    """Against the version it was started with: a gate that was timed out or forced meanwhile keeps what it has."""
    if result.stopped:
        log.info("gate_given_back", gate=gate.pk)
        holding.give_back(gate)
        return
    if not holding.is_held(gate):
        log.warning("gate_result_not_taken", gate=gate.pk, code="not_held")
        return
    trigger, params = _verdict(gate, result)
    try:
        door.transition(TestGate, gate.pk, trigger, actor=THE_SYSTEM, params=params, expected_version=gate.version)
    except Refusal as refusal:
        log.warning("gate_result_not_taken", gate=gate.pk, code=refusal.code, detail=refusal.detail)


def _verdict(gate: TestGate, result: command.Result) -> tuple[str, dict[str, object]]:
    said: dict[str, object] = {"stdout": result.stdout, "stderr": result.stderr}
    if result.timed_out:
        return "timeout_exceeded", said | {"stderr": f"{result.stderr}timed out after {gate.timeout_sec} s"}
    said |= {"exit_code": result.exit_code, "duration_sec": result.duration_sec}
    if result.exit_code == gate.expected_exit_code and result.ran:
        return "gate_passed", said
    # Whatever is expected, a command that was not run has not passed.
    return "gate_failed", said | ({"exit_code": 125} if result.exit_code == gate.expected_exit_code else {})


# Where this process stopped last time, so that many who are refused do not hide the others.
_places: dict[str, Any] = {}


def time_out_gates(limit: int = BATCH) -> int:
    """Fail the gates whose time is over and whose runner did not say so; how many there were."""
    overdue = holding.overdue(RUNNERS_GRACE)
    return sum(map(_time_out, next_by_time(overdue, "times_out_at", _places, "overdue", limit)))


def _time_out(gate_id: str) -> bool:
    """One transaction each: what follows from a failed gate may take many locks."""
    try:
        door.transition(TestGate, gate_id, "timeout_exceeded", actor=THE_SYSTEM)
    except Refusal:  # it has ended after all
        return False
    log.warning("gate_timed_out_without_its_runner", gate=gate_id)
    return True
