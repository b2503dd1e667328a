"""What an agent does when there is no task for it: gates that wait to be run, patches on their way to the branch."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from random import Random
from typing import Any

from ..kernel.actors import THE_SYSTEM, Actor
from ..machines import patch_ledger, test_gate
from ..machines.patch_ledger import APPLY_RETRIES, PatchLedger
from ..machines.test_gate import TestGate
from .desk import Desk
from .names import simulated

WITHIN_REACH = 20  # of those that have waited longest, one is picked: not everybody goes for the first


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
        """One step along the ledger; those that quarantine are rare, for they fail the workstream."""
        state, move = patch_ledger.State, self._patch_moves(entry)
        match entry.state:
            case state.CREATED if self._fails(0.3):
                move("validation_failed", error="the diff does not parse")
            case state.CREATED:
                move("validation_passed", format_passed=True, scope_passed=True, constraints_passed=True)
            case state.VALIDATED if objection := entry.phase.objection(entry.patch.touched_paths()):
                move("policy_violated", error=objection)
            case state.VALIDATED:
                move("accepted_for_merge")
            case state.QUEUED if self._fails(2):
                move("apply_failed", error="hunk 1 does not apply")
            case state.QUEUED:
                move("apply_succeeded")
            case state.APPLY_FAILED:
                tried_often = entry.apply_retries >= APPLY_RETRIES
                move("auto_quarantined" if tried_often else "apply_retried", actor=THE_SYSTEM)
            case state.APPLIED if self._fails(0.3):
                move("tests_failed", error="3 tests fail with this patch")
            case state.APPLIED:
                move("tests_passed")
            case state.VERIFIED:
                move("commit_succeeded", commit_sha=sha1(entry.pk.encode(), usedforsecurity=False).hexdigest())

    def _patch_moves(self, entry: PatchLedger) -> Callable[..., None]:
        def move(trigger: str, *, actor: Actor = self.actor, **params: Any) -> None:
            self.desk.move(PatchLedger, entry.pk, trigger, actor, **params)

        return move

    def _fails(self, weight: float) -> bool:
        return self.rng.random() < self.failures * weight
