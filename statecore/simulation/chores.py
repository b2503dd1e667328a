"""What an agent does when there is no task for it: gates that wait to be run, patches on their way to the branch."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from ..kernel.actors import THE_SYSTEM, Actor
from ..machines import patch_ledger, test_gate
from ..machines.patch_ledger import APPLY_RETRIES, PatchLedger
from ..machines.test_gate import TestGate
from .desk import Desk
from .names import simulated

WITHIN_REACH = 20  # of those that have waited longest, one is picked: not everybody goes for the first


class Step(NamedTuple):
    """What a patch does next, and what it does when that goes wrong."""

    right: str
    params: dict[str, Any] = {}
    wrong: str = ""
    error: str = ""
    weight: float = 0.0  # of its going wrong; small where it quarantines, for that fails the workstream


STEPS = {
    patch_ledger.State.CREATED: Step(
        "validation_passed",
        {"format_passed": True, "scope_passed": True, "constraints_passed": True},
        "validation_failed",
        "the diff does not parse",
        0.3,
    ),
    patch_ledger.State.VALIDATED: Step("accepted_for_merge", wrong="policy_violated"),
    patch_ledger.State.QUEUED: Step("apply_succeeded", {}, "apply_failed", "hunk 1 does not apply", 2.0),
    patch_ledger.State.APPLIED: Step("tests_passed", {}, "tests_failed", "3 tests fail with this patch", 0.3),
    patch_ledger.State.VERIFIED: Step("commit_succeeded", {"commit_sha": "5" * 40}),
}


class Chores:
    """The chores of one agent, or of the one who clears up at the end, when nothing fails any more."""

    def __init__(self, desk: Desk, rng: Random, actor: Actor, failures: float) -> None:
        self.desk, self.rng, self.actor, self.failures = desk, rng, actor, failures

    def do_one(self) -> bool:
        """Whether there was one to do."""
        first, second = self.rng.sample((self.run_a_gate, self.walk_a_patch), 2)
        return first() or second()

    def run_a_gate(self) -> bool:
        shut = TestGate.objects.exclude(state=test_gate.State.PASSED)
        waiting = simulated(TestGate).filter(state=test_gate.State.PENDING).exclude(depends_on__in=shut)
        return self._pick(waiting, self._run_gate)

    def walk_a_patch(self) -> bool:
        on_their_way = sorted(set(patch_ledger.State) - patch_ledger.FINAL)
        return self._pick(simulated(PatchLedger).filter(state__in=on_their_way), self._step)

    def _pick(self, waiting: Any, do: Callable[[Any], None]) -> bool:
        found = list(waiting.order_by("state_entered_at", "pk")[:WITHIN_REACH])
        if not found:
            return False
        chosen = self.rng.choice(found)
        with self.desk.in_hand(f"{chosen.flow.entity_type} {chosen.pk}") as free:
            if free:
                do(chosen)
        return free

    def _run_gate(self, gate: TestGate) -> None:
        if not self.desk.move(TestGate, gate.pk, "gate_started", self.actor):
            return
        if self._fails(2):
            said = {"exit_code": 1, "stdout": "2 of 40 checks failed", "stderr": "expected 3, found 4"}
            self.desk.move(TestGate, gate.pk, "gate_failed", self.actor, **said)
        else:
            self.desk.move(TestGate, gate.pk, "gate_passed", self.actor, exit_code=0, stdout="40 checks passed")

    def _step(self, entry: PatchLedger) -> None:
        """One step along the ledger."""
        if entry.state == patch_ledger.State.APPLY_FAILED:
            tried_often = entry.apply_retries >= APPLY_RETRIES
            trigger = "auto_quarantined" if tried_often else "apply_retried"
            self.desk.move(PatchLedger, entry.pk, trigger, THE_SYSTEM)
            return
        step = STEPS[patch_ledger.State(entry.state)]
        error = step.error if self._fails(step.weight) else ""
        if entry.state == patch_ledger.State.VALIDATED:
            error = entry.phase.objection(entry.patch.touched_paths()) or ""
        if error:
            self.desk.move(PatchLedger, entry.pk, step.wrong, self.actor, error=error)
        else:
            self.desk.move(PatchLedger, entry.pk, step.right, self.actor, **step.params)

    def _fails(self, weight: float) -> bool:
        return self.rng.random() < self.failures * weight
