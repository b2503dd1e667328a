"""Explains from the rows alone, independent of the product's code, why a run has not ended."""

from __future__ import annotations

from typing import Any

from statecore.kernel.clock import now
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.records.hold import select_active


def why_not_ended(run: Run) -> list[str]:
    """Return the decisions the run waits for; an empty list means an unexplained wait, which is a bug."""
    if run.state == "pending":
        return ["the run was not started"]
    parts = [w for w in latest(Workstream.objects.filter(run=run)) if w.state not in ("completed", "skipped")]
    return _all_of([of_workstream(part, set()) for part in parts])


def is_up_to_operators(run: Run) -> bool:
    """Whether a run that does not wait for decisions may wait: it was not started, or an operator keeps it waiting."""
    live = [found for found in latest(Workstream.objects.filter(run=run)) if found.state not in Workstream.flow.final]
    waits = [found.state == "paused" or found.awaits_repair() or quarantined_before(found) for found in live]
    return run.state == "pending" or select_active(now()).exists() or any(waits)


def latest(rows: Any) -> list[Any]:
    """Return the rows without a successor."""
    return list(rows.filter(successor=None).order_by("pk"))


def _all_of(reasons: list[list[str]]) -> list[str]:
    """Merge the reasons, or return none if one part has no reason."""
    return sorted({each for found in reasons for each in found}) if reasons and all(reasons) else []


def _any_of(reasons: list[list[str]]) -> list[str]:
    return sorted({each for found in reasons for each in found})


def of_workstream(workstream: Workstream, seen: set[Any]) -> list[str]:
    if (key := ("workstream", workstream.pk)) in seen:
        return []
    seen = seen | {key}
    if workstream.state in ("failed", "cancelled", "skipped"):
        return [f"{workstream} is {workstream.state}"]
    if workstream.state == "paused":
        return [f"{workstream} is paused"]
    if workstream.state == "blocked":
        others = workstream.depends_on.exclude(state="completed")
        return _any_of([of_workstream(other, seen) for other in others])
    tasks = [task for task in latest(workstream.tasks) if task.state != "completed"]
    if workstream.state in ("ready", "executing"):
        return _all_of([of_task(task, seen) for task in tasks])
    if workstream.state == "validating" and tasks:
        return _all_of([of_task(task, seen) for task in tasks]) if workstream.repairs else []
    if workstream.state == "validating":
        gates = [gate for gate in latest(workstream.gates) if not has_passed(gate)]
        patches = [patch for patch in latest(workstream.patches) if patch.state not in ("committed", "dropped")]
        patches += quarantined_before(workstream)
        return _all_of([of_gate(gate) for gate in gates] + [of_patch(patch) for patch in patches])
    return []


def quarantined_before(workstream: Workstream) -> list[PatchLedger]:
    """Return quarantined patches of its predecessors, except those of tasks that were retried."""
    older, found = workstream.retry_of, []
    while older:
        lost = [patch for patch in latest(older.patches) if patch.state == "quarantined"]
        found += [patch for patch in lost if not any(Task.objects.filter(retry_of=t) for t in patch.tasks.all())]
        older = older.retry_of
    return found


def of_task(task: Task, seen: set[Any]) -> list[str]:
    if (key := ("task", task.pk)) in seen:
        return []
    seen = seen | {key}
    if task.state in ("failed", "cancelled"):
        return [f"{task} is {task.state}"]
    if task.state == "blocked":
        before = [of_task(other, seen) for other in task.depends_on.exclude(state="completed")]
        # A task may depend on a task of a workstream that has not started.
        asleep = [
            of_workstream(other.workstream, seen)
            for other in task.depends_on.filter(state="pending").exclude(workstream=task.workstream)
        ]
        gates = [of_gate(gate) for gate in (*task.gates.all(), *task.entry_gates.all()) if not has_passed(gate)]
        return _any_of(before + asleep + gates)
    if task.state == "queued":
        return [f"{task} is held"] if select_active(now()).exists() else []
    if task.state == "validating":
        gates = [of_gate(gate) for gate in task.gates.all() if not has_passed(gate)]
        return _any_of([*gates, of_patch(task.patch) if task.patch else []])
    return []


def has_passed(gate: TestGate) -> bool:
    return gate.state == "PASSED" or gate.waived


def of_gate(gate: TestGate) -> list[str]:
    if gate.state == "FAILED":
        return [f"{gate} is FAILED"]
    return _any_of([of_gate(other) for other in gate.depends_on.all() if not has_passed(other)])


def of_patch(patch: PatchLedger) -> list[str]:
    lost = ("quarantined", "dropped", "rolled_back")
    return [f"{patch} is {patch.state}"] if patch.state in lost else []
