"""Runs simulated gates and advances simulated patches as the executors do, while an agent has no task."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from ...kernel.actors import THE_SYSTEM
from ...machines import patch_ledger, test_gate
from ...machines.patch_ledger import APPLY_RETRIES, PatchLedger
from ...machines.test_gate import TestGate
from .context import Context
from .names import simulated

CANDIDATES = 20  # a random one of the longest waiting, so that agents do not compete for the first


class Step(NamedTuple):
    """The next trigger of a patch, and the one for a failure."""

    success: str
    params: dict[str, Any] = {}
    failure: str = ""
    error: str = ""
    weight: float = 0.0  # multiplies the failure rate; low where a failure quarantines the patch


STEPS = {
    patch_ledger.State.CREATED: Step(
        "validation_passed",
        {"format_passed": True, "scope_passed": True, "constraints_passed": True},
        "validation_failed",
        "the diff does not parse",
        0.3,
    ),
    patch_ledger.State.VALIDATED: Step("accepted_for_merge", failure="policy_violated"),
    patch_ledger.State.QUEUED: Step("apply_succeeded", {}, "apply_failed", "hunk 1 does not apply", 2.0),
    patch_ledger.State.APPLIED: Step("tests_passed", {}, "tests_failed", "3 tests fail with this patch", 0.3),
    patch_ledger.State.VERIFIED: Step("commit_succeeded", {"commit_sha": "5" * 40}),
}


class GatesAndPatches:
    """Used by each agent, and at the end, without failures, to finish what remains."""

    def __init__(self, context: Context, rng: Random, failures: float) -> None:
        self.context, self.rng, self.failures = context, rng, failures

    def do_one(self) -> bool:
        """Runs a gate or advances a patch. Returns whether there was one."""
        first, second = self.rng.sample((self.run_a_gate, self.advance_a_patch), 2)
        return first() or second()

    def run_a_gate(self) -> bool:
        not_passed = TestGate.objects.exclude(state=test_gate.State.PASSED)
        waiting = simulated(TestGate).filter(state=test_gate.State.PENDING).exclude(depends_on__in=not_passed)
        return self._pick(waiting, self._run_gate)

    def advance_a_patch(self) -> bool:
        unfinished = sorted(set(patch_ledger.State) - patch_ledger.FINAL)
        return self._pick(simulated(PatchLedger).filter(state__in=unfinished), self._step)

    def _pick(self, waiting: Any, do: Callable[[Any], None]) -> bool:
        found = list(waiting.order_by("state_entered_at", "pk")[:CANDIDATES])
        if not found:
            return False
        chosen = self.rng.choice(found)
        with self.context.exclusively(f"{chosen.flow.entity_type} {chosen.pk}") as free:
            if free:
                do(chosen)
        return free

    def _run_gate(self, gate: TestGate) -> None:
        if not self.context.fire(TestGate, gate.pk, "gate_started", THE_SYSTEM):
            return
        if self._fails(2):
            result = {"exit_code": 1, "stdout": "2 of 40 checks failed", "stderr": "expected 3, found 4"}
            self.context.fire(TestGate, gate.pk, "gate_failed", THE_SYSTEM, **result)
        else:
            self.context.fire(TestGate, gate.pk, "gate_passed", THE_SYSTEM, exit_code=0, stdout="40 checks passed")

    def _step(self, entry: PatchLedger) -> None:
        """Fires the next trigger of a patch."""
        if entry.state == patch_ledger.State.APPLY_FAILED:
            exhausted = entry.apply_retries >= APPLY_RETRIES
            trigger = "auto_quarantined" if exhausted else "apply_retried"
            self.context.fire(PatchLedger, entry.pk, trigger, THE_SYSTEM)
            return
        step = STEPS[patch_ledger.State(entry.state)]
        error = step.error if self._fails(step.weight) else ""
        if entry.state == patch_ledger.State.VALIDATED:
            error = entry.phase.objection(entry.patch.touched_paths()) or ""
        if error:
            self.context.fire(PatchLedger, entry.pk, step.failure, THE_SYSTEM, error=error)
        else:
            self.context.fire(PatchLedger, entry.pk, step.success, THE_SYSTEM, **step.params)

    def _fails(self, weight: float) -> bool:
        return self.rng.random() < self.failures * weight
