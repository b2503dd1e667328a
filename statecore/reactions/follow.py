"""Which entities a change puts in question, and in which order they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from django.db import transaction

from ..door.change import Change
from ..door.perform import perform
from ..machines import patch_ledger, run, task, test_gate, worker, workstream
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from . import gates, locks, quiet, runs, tasks, workers, workstreams
from .causes import above, own


def follow(changes: list[Change]) -> None:
    by_machine: dict[type, list[Change]] = {}
    for change in changes:
        by_machine.setdefault(type(change.entity), []).append(change)
    if changed := by_machine.get(Task):
        workers.keep_count(changed)
        _tasks_started(_to(changed, task.State.RUNNING))
        _tasks_changed([change for change in changed if change.entry.to_state != task.State.RUNNING])
    if changed := by_machine.get(Workstream):
        _workstreams_changed(changed)
    if changed := by_machine.get(Run):
        _runs_changed(changed)
    if changed := by_machine.get(TestGate):
        _gates_created([change for change in changed if _is_new(change)])
        _gates_changed(_to(changed, *test_gate.FINAL))
    if changed := by_machine.get(patch_ledger.PatchLedger):
        _patches_changed(changed)
    if changed := by_machine.get(worker.Worker):
        workers.let_go(changed)


def _to(changes: Iterable[Change], *states: str) -> list[Change]:
    return [change for change in changes if change.entry.to_state in states]


def _is_new(change: Change) -> bool:
    return not change.entry.from_state


def _tasks_started(changes: list[Change]) -> None:
    """Without the lock of the workstream, for many start at the same time: whoever ends it finds them afterwards."""
    if not changes:
        return
    parents = above(changes, "workstream_id")
    standings = workstreams.standings(parents)
    begun = {pk: parents[pk] for pk, (state, _of_run) in standings.items() if state == workstream.State.READY}
    workstreams.reconsider(begun)
    dead = {pk for pk, (state, of_run) in standings.items() if state in workstream.FINAL or of_run in run.FINAL}
    tasks.reconsider(own(change for change in changes if change.entity.__dict__["workstream_id"] in dead))


def _tasks_changed(changes: list[Change], *, is_committed: bool = False) -> None:
    changes = quiet.noticed(changes)
    if not changes or quiet.completed_quietly(changes):
        return
    changes = _under_their_workstreams(changes)
    if not is_committed:
        workstreams.refuse_latecomers(above(filter(_is_new, changes), "workstream_id"))
    completed = own(_to(changes, task.State.COMPLETED))
    tasks.reconsider(own(c for c in changes if c.entry.to_state not in task.FINAL) | tasks.waiting_for_tasks(completed))
    # A new task may be the one its workstream has waited for.
    ended = [change for change in changes if change.entry.to_state in task.FINAL or _is_new(change)]
    workstreams.reconsider(above(ended, "workstream_id"))


def _under_their_workstreams(changes: list[Change]) -> list[Change]:
    """Who is new is not seen yet by what it waits for: that is locked too, so that it does not end unseen meanwhile."""
    new = own(filter(_is_new, changes))
    gates_left = locks.take(TestGate, tasks.gates_of(new))
    awaited = tasks.workstreams_awaited(new)
    left = locks.take(Workstream, above(changes, "workstream_id").keys() | awaited)
    if not left and not gates_left:
        return changes
    newcomers = new if gates_left or left & awaited else {}
    return _later(
        changes,
        lambda c: c.entity.__dict__["workstream_id"] in left or c.entity.pk in newcomers,
        partial(_tasks_changed, is_committed=True),
    )


def _later(
    changes: list[Change], waits: Callable[[Change], bool], look: Callable[[list[Change]], None]
) -> list[Change]:
    """Look at some of these after the commit, when nothing is held and one may wait; the others."""
    if later := [change for change in changes if waits(change)]:
        transaction.on_commit(partial(perform, partial(look, later)), robust=True)
    return [change for change in changes if not waits(change)]


def _workstreams_changed(changes: list[Change]) -> None:
    changes = _under_their_runs(changes)
    ended = _to(changes, *workstream.FINAL)
    live = own(change for change in changes if change.entry.to_state not in workstream.FINAL)
    completed = own(_to(changes, workstream.State.COMPLETED))
    workstreams.reconsider(live | workstreams.waiting_for_workstreams(completed))
    ready, unfinished = own(_to(changes, workstream.State.READY)), own(_to(changes, *UNFINISHED))
    tasks.reconsider(tasks.of_workstreams(ready, task.State.PENDING) | tasks.of_workstreams(unfinished))
    runs.reconsider(above(ended, "run_id"))


def _under_their_runs(changes: list[Change]) -> list[Change]:
    """With the runs of what a new one waits for, which cannot see it yet."""
    new = own(filter(_is_new, changes))
    awaited = workstreams.runs_awaited(new)
    left = locks.take(Run, above(filter(_concerns_its_run, changes), "run_id").keys() | awaited)
    newcomers = new if left & awaited else {}
    return _later(
        changes,
        lambda c: c.entity.pk in newcomers or (_concerns_its_run(c) and c.entity.__dict__["run_id"] in left),
        _workstreams_changed,
    )


UNFINISHED = workstream.FINAL - {workstream.State.COMPLETED}


def _concerns_its_run(change: Change) -> bool:
    return change.entry.to_state in workstream.FINAL or _is_new(change)


def _runs_changed(changes: list[Change]) -> None:
    workstreams.reconsider(workstreams.of_runs(own(c for c in changes if c.entry.to_state != run.State.PENDING)))


def _gates_created(changes: list[Change]) -> None:
    """What they wait for is locked, as for a new task."""
    new = own(changes)
    if locks.take(TestGate, gates.awaited(new)):
        _later(changes, lambda c: True, _gates_created)
        return
    gates.reconsider(new)


def _gates_changed(changes: list[Change]) -> None:
    if not changes:
        return
    causes = own(changes)
    parents = above(changes, "workstream_id")
    if locks.take(Workstream, parents.keys() | tasks.workstreams_behind_gates(causes)):
        _later(changes, lambda c: True, _gates_changed)
        return
    tasks.reconsider(tasks.behind_gates(causes))
    gates.reconsider(gates.dependents(causes))
    workstreams.reconsider(parents)


def _patches_changed(changes: list[Change]) -> None:
    ended, verified = _to(changes, *patch_ledger.FINAL), _to(changes, *task.VERIFIED)
    if not ended and not verified:
        return
    parents = workstreams.with_heirs(above(ended, "workstream_id"))
    if locks.take(Workstream, parents.keys() | above(verified, "workstream_id").keys()):
        _later(changes, lambda c: True, _patches_changed)
        return
    tasks.reconsider(tasks.with_patches(own(verified)))
    workstreams.reconsider(parents)
