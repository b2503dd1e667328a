"""Execution of test gates, and timeouts of gates that no runner reported."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings

from statecore_client.processes.process_guard import GRACE

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import Refusal
from ..kernel.repositories import DEFAULT
from ..machines.test_gate import TestGate
from ..storage.keyset_scan import next_by_time
from . import allowed_commands, checkouts, command, gate_lease, isolated_command, repository
from .checkouts import Source
from .command_slots import slots
from .due_gates import BATCH, find_due
from .errors import GitFailed, NotEnabled, RepositoryBusy, WorkerStopping

__all__ = ["find_due", "run_gate", "time_out_gates"]

log = structlog.get_logger(__name__)

# A live runner stops the command at its timeout and reports its output; the sweep gives it the time to.
RUNNERS_GRACE = timedelta(seconds=4 * GRACE)
NOT_RUN = 125


def run_gate(gate_id: str) -> bool:
    """Run the gate's command and report the result; False if another runner has the gate or the repository."""
    allowed_commands.require_enabled()
    if command.runners.stopping:
        return False
    # The lease is taken last: the time that a gate waits for others does not count.
    try:
        with slots.hold():
            return _run(gate_id, _find_source(gate_id))
    except (GitFailed, NotEnabled, RepositoryBusy, WorkerStopping) as error:
        log.info("gate_postponed", gate=gate_id, reason=str(error))
        return False


def _run(gate_id: str, source: Source) -> bool:
    gate = gate_lease.acquire(gate_id)
    if gate is None:
        return False
    with gate_lease.renewing(gate):
        result = _run_command(gate, source)
    _report(gate, result)
    return True


def _find_source(gate_id: str) -> Source:
    """Return what the gate tests; raises RepositoryBusy while a patch may make a commit that is undone."""
    name = _find_repository(gate_id)
    folder = settings.STATECORE_GATE_FOLDER if name == DEFAULT else repository.get_settings(name).path
    folder.mkdir(parents=True, exist_ok=True)
    with repository.without_commits(name):
        return checkouts.find_source(folder)


def _find_repository(gate_id: str) -> str:
    """Return the repository of the gate's workstream; that of its phase if it belongs to none."""
    gate = TestGate.objects.select_related("workstream", "phase").get(pk=gate_id)
    return str(gate.workstream.repository) if gate.workstream else gate.phase.choose_repository(None)


def _run_command(gate: TestGate, source: Source) -> command.Result:
    return isolated_command.run(gate.command, source, timeout=gate.timeout_sec)


def _report(gate: TestGate, result: command.Result) -> None:
    """Report with the version of the start: a gate that was timed out or overridden in between keeps its state."""
    if result.stopped:
        log.info("gate_released", gate=gate.pk)
        gate_lease.release(gate)
        return
    if not gate_lease.is_held(gate):
        log.warning("gate_result_refused", gate=gate.pk, code="not_held")
        return
    trigger, params = _choose_trigger(gate, result)
    try:
        transitions.transition(
            TestGate, gate.pk, trigger, actor=THE_SYSTEM, params=params, expected_version=gate.version
        )
    except Refusal as refusal:
        log.warning("gate_result_refused", gate=gate.pk, code=refusal.code, detail=refusal.detail)


def _choose_trigger(gate: TestGate, result: command.Result) -> tuple[str, dict[str, object]]:
    params: dict[str, object] = {"stdout": result.stdout, "stderr": result.stderr}
    if result.timed_out:
        return "timeout_exceeded", params | {"stderr": f"{result.stderr}timed out after {gate.timeout_sec} s"}
    if result.excess:
        params["stderr"] = f"{result.stderr}the command {result.excess}"
    params |= {"exit_code": result.exit_code, "duration_sec": result.duration_sec}
    if result.exit_code != gate.expected_exit_code:
        return "gate_failed", params
    if result.completed:
        return "gate_passed", params
    # A command that did not run to its end has not passed, even if its exit code is the expected one.
    return "gate_failed", params | {"exit_code": NOT_RUN}


# Where this process stopped last time, so that gates that refuse do not block the ones after them.
_places: dict[str, Any] = {}


def time_out_gates(limit: int = BATCH) -> int:
    """Fail gates past their timeout that no runner reported, and return their number."""
    overdue = gate_lease.past_timeout(RUNNERS_GRACE)
    return sum(map(_time_out, next_by_time(overdue, "times_out_at", _places, "overdue", limit)))


def _time_out(gate_id: str) -> bool:
    """Use one transaction for each gate, because the reactions to a failed gate may take many locks."""
    try:
        transitions.transition(TestGate, gate_id, "timeout_exceeded", actor=THE_SYSTEM)
    except Refusal:  # the gate has ended
        return False
    log.warning("gate_timed_out_without_runner", gate=gate_id)
    return True
