"""Which entities a change puts in question, and in which order they are looked at."""

from __future__ import annotations

from collections.abc import Iterable

from .. import door
from ..door.change import Change
from ..machines import patch_ledger, run, task, test_gate, worker, workstream
from ..machines.task import Task
from ..machines.workstream import Workstream
from . import gates, run_lock, runs, tasks, workers, workstreams
from .causes import Causes, above, own


def follow(changes: list[Change]) -> None:
    by_machine: dict[type, list[Change]] = {}
    for change in changes:
        by_machine.setdefault(type(change.entity), []).append(change)
    if changed := by_machine.get(Task):
        started = [change for change in changed if change.entry.to_state == task.State.RUNNING]
        # Before anything else: what is started may be called off at once, and is counted down then.
        workers.keep_count(started)
        _tasks_started(started)
        others = [change for change in changed if change.entry.to_state != task.State.RUNNING]
        _tasks_changed(others)
        workers.keep_count(others)
    if changed := by_machine.get(Workstream):
        # Nothing follows from a workstream that has begun to execute, and whoever begins it need not wait for the run.
        _workstreams_changed([change for change in changed if change.entry.to_state != workstream.State.EXECUTING])
    if changed := by_machine.get(run.Run):
        _runs_changed(changed)
    if changed := by_machine.get(test_gate.TestGate):
        _gates_changed(changed)
    if changed := by_machine.get(patch_ledger.PatchLedger):
        _patches_changed(changed)
    if changed := by_machine.get(worker.Worker):
        workers.let_go(changed)


def _to(changes: Iterable[Change], *states: str) -> list[Change]:
    return [change for change in changes if change.entry.to_state in states]


def _tasks_started(changes: list[Change]) -> None:
    if not changes:
        return
    parents = above(changes, "workstream_id")
    states = run_lock.share(list(parents))
    waiting: Causes = {pk: parents[pk] for pk, (state, _run) in states.items() if state == workstream.State.READY}
    if waiting:
        door.follow_up(Workstream, waiting, "first_task_started")
    dead = {pk for pk, (state, of_run) in states.items() if state in workstream.FINAL or of_run in run.FINAL}
    orphans = [change for change in changes if change.entity.__dict__["workstream_id"] in dead]
    if orphans:
        # Nothing follows from a task of what has ended: the shared lock will do, and asking for more, as another claim
        # may do at the same time, would be a deadlock.
        run_lock.is_enough(orphans)
        door.follow_up(Task, own(orphans), "cascade_cancelled")


def _tasks_changed(changes: list[Change]) -> None:
    if not changes:
        return
    run_lock.take(changes)
    completed = own(_to(changes, task.State.COMPLETED))
    tasks.reconsider(own(c for c in changes if c.entry.to_state not in task.FINAL) | tasks.waiting_for_tasks(completed))
    # A new task may be the one its workstream has waited for.
    ended = [change for change in changes if change.entry.to_state in task.FINAL or not change.entry.from_state]
    workstreams.reconsider(above(ended, "workstream_id"))


def _workstreams_changed(changes: list[Change]) -> None:
    if not changes:
        return
    run_lock.take(changes)
    live = own(change for change in changes if change.entry.to_state not in workstream.FINAL)
    completed = own(_to(changes, workstream.State.COMPLETED))
    workstreams.reconsider(live | workstreams.waiting_for_workstreams(completed))
    ready, ended = own(_to(changes, workstream.State.READY)), _to(changes, *workstream.FINAL)
    tasks.reconsider(
        tasks.of_workstreams(ready, task.State.PENDING) | tasks.of_workstreams(own(_to(ended, *UNFINISHED)))
    )
    runs.reconsider(above(ended, "run_id"))


UNFINISHED = workstream.FINAL - {workstream.State.COMPLETED}


def _runs_changed(changes: list[Change]) -> None:
    run_lock.take(changes)
    workstreams.reconsider(workstreams.of_runs(own(c for c in changes if c.entry.to_state != run.State.PENDING)))


def _gates_changed(changes: list[Change]) -> None:
    gates.block_new(own(change for change in changes if not change.entry.from_state))
    decided = _to(changes, *test_gate.FINAL)
    if not decided:
        return
    run_lock.take(decided)
    causes = own(decided)
    tasks.reconsider(tasks.behind_gates(causes))
    gates.reconsider_dependents(causes)
    workstreams.reconsider(above(decided, "workstream_id"))


def _patches_changed(changes: list[Change]) -> None:
    run_lock.take(changes)
    tasks.reconsider(tasks.with_patches(own(_to(changes, *task.VERIFIED))))
    ended = _to(changes, *patch_ledger.FINAL)
    workstreams.reconsider(above(ended, "workstream_id"))
