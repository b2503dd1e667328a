"""Decides which entities a change affects, and the order in which they are re-evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ..kernel import registry
from ..machines import patch_ledger, run, task, test_gate, workstream
from ..machines.run import Run
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..transitions import waivers
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import (
    attempts,
    gates,
    locks,
    run_queues,
    runs,
    supervised,
    tasks,
    tools,
    unobserved_completion,
    workers,
    workstreams,
)
from .evaluation import changed, parents_of

QUARANTINED = patch_ledger.State.QUARANTINED
UNFINISHED = workstream.FINAL - {workstream.State.COMPLETED}


# Tasks


def _tasks_changed(work: UnitOfWork, changes: list[Change]) -> None:
    _keep_attempts(changes)
    workers.update_load(work, changes)
    started, progressed, with_tool, queued = [], [], [], set()
    for change in changes:
        if change.entry.to_state == task.State.RUNNING:
            started.append(change)
        # Tasks that unobserved_completion.py is completing need no reaction.
        elif change.entity.pk not in work.completing:
            progressed.append(change)
        if change.entry.to_state == task.State.QUEUED:
            queued.add(run_queues.key_of(change.entity))
        if change.entity.__dict__["tool"]:
            with_tool.append(change)
    if queued:
        run_queues.open_queues(work, queued)
    if started:
        run_queues.require_room(work, started)
        _tasks_started(work, started)
    if progressed and not unobserved_completion.complete(work, progressed):
        _tasks_progressed(work, progressed)
    # Last, because a report may lock the breaker of the tool.
    if with_tool:
        tools.react(work, with_tool)


def _keep_attempts(changes: list[Change]) -> None:
    interrupted = [
        change
        for change in changes
        if change.entry.from_state in attempts.WORKED_IN and change.entry.trigger not in attempts.GOES_ON
    ]
    if interrupted:
        attempts.keep(interrupted)


def _tasks_started(work: UnitOfWork, changes: list[Change]) -> None:
    """Takes no lock on the workstream, because many tasks start at once.

    If the workstream ends concurrently, that transaction re-evaluates these tasks.
    """
    parents = parents_of(changes, "workstream_id")
    states = workstreams.read_states(work, parents)
    begun = {pk: parents[pk] for pk, (state, _run_state) in states.items() if state == workstream.State.READY}
    workstreams.reevaluate(work, begun)
    ended = {pk for pk, (state, run_state) in states.items() if state in workstream.FINAL or run_state in run.FINAL}
    orphans = [change for change in changes if change.entity.__dict__["workstream_id"] in ended]
    tasks.reevaluate(work, changed(orphans))


def _tasks_progressed(work: UnitOfWork, changes: list[Change], *, after_commit: bool = False) -> None:
    """Lock the workstreams, then re-evaluate the tasks, their dependents and the workstreams."""
    changes = _lock_workstreams(work, changes)
    parents = parents_of(filter(_is_new, changes), "workstream_id")
    repaired = workstreams.admit_tasks(work, parents, refuses=not after_commit)
    gates.rerun_for_repair(work, gates.rejecting(work, repaired))
    completed = changed(_in_states(changes, task.State.COMPLETED))
    live = changed(change for change in changes if change.entry.to_state not in task.FINAL)
    tasks.reevaluate(work, live | tasks.waiting_for_tasks(work, completed))
    # A new task may be the one that its workstream needed to be complete.
    ended = [change for change in changes if _affects_workstream(change)]
    workstreams.reevaluate(work, parents_of(ended, "workstream_id"))


def _affects_workstream(change: Change) -> bool:
    """Whether a task has ended, is new, or waits for a patch that may be quarantined already."""
    to_state = change.entry.to_state
    waits = to_state == task.State.VALIDATING and change.entity.__dict__["patch_id"] is not None
    return to_state in task.FINAL or waits or _is_new(change)


def _lock_workstreams(work: UnitOfWork, changes: list[Change]) -> list[Change]:
    """Lock the workstreams of the tasks, and the gates and workstreams that new tasks wait for.

    A gate or workstream that does not see the new task could end without unblocking it. Tasks with a lock held
    elsewhere are postponed until after the commit; the others are returned.
    """
    new = changed(filter(_is_new, changes))
    gates_left = locks.take(work, TestGate, tasks.gates_of(work, new))
    awaited = tasks.workstreams_awaited(work, new)
    left = locks.take(work, Workstream, parents_of(changes, "workstream_id").keys() | awaited)
    if not left and not gates_left:
        return changes
    postponed = new if gates_left or left & awaited else {}
    return _postpone(
        work,
        changes,
        lambda change: change.entity.__dict__["workstream_id"] in left or change.entity.pk in postponed,
        partial(_tasks_progressed, after_commit=True),
    )


# Workstreams and runs


def _workstreams_changed(work: UnitOfWork, changes: list[Change]) -> None:
    changes = _lock_runs(work, changes)
    ended = _in_states(changes, *workstream.FINAL)
    live = changed(change for change in changes if change.entry.to_state not in workstream.FINAL)
    completed = changed(_in_states(changes, workstream.State.COMPLETED))
    workstreams.reevaluate(work, live | workstreams.waiting_for_workstreams(work, completed))
    unfinished = changed(_in_states(changes, *UNFINISHED))
    working = changed(change for change in changes if _lets_tasks_start(change))
    pending = tasks.of_workstreams(work, working, task.State.PENDING)
    tasks.reevaluate(work, pending | tasks.of_workstreams(work, unfinished))
    runs.reevaluate(work, parents_of(ended, "run_id"))


def _lets_tasks_start(change: Change) -> bool:
    return change.entry.to_state == workstream.State.READY or change.entry.trigger == "workstream_resumed"


def _lock_runs(work: UnitOfWork, changes: list[Change]) -> list[Change]:
    """Lock the runs of new and ended workstreams, and the runs that new workstreams wait for."""
    new = changed(filter(_is_new, changes))
    awaited = workstreams.runs_awaited(work, new)
    left = locks.take(work, Run, parents_of(filter(_affects_run, changes), "run_id").keys() | awaited)
    postponed = new if left & awaited else {}
    return _postpone(
        work,
        changes,
        lambda change: (
            change.entity.pk in postponed or (_affects_run(change) and change.entity.__dict__["run_id"] in left)
        ),
        _workstreams_changed,
    )


def _affects_run(change: Change) -> bool:
    return change.entry.to_state in workstream.FINAL or _is_new(change)


def _runs_changed(work: UnitOfWork, changes: list[Change]) -> None:
    # A critical workstream may have failed, or all may have been skipped, before the run has started.
    runs.reevaluate(work, changed(_in_states(changes, run.State.RUNNING)))
    started_or_ended = changed(change for change in changes if change.entry.to_state != run.State.PENDING)
    workstreams.reevaluate(work, workstreams.of_runs(work, started_or_ended))


# Gates and patches


def _gates_changed(work: UnitOfWork, changes: list[Change]) -> None:
    _gates_created(work, [change for change in changes if _is_new(change)])
    _gates_decided(work, [change for change in changes if _is_decided(change)])
    tools.react(work, [change for change in changes if change.entity.__dict__["tool"]])


def _is_decided(change: Change) -> bool:
    return change.entry.to_state in test_gate.FINAL or change.entry.trigger in waivers.TRIGGERS


def _gates_created(work: UnitOfWork, changes: list[Change]) -> None:
    """Lock the gates that new ones wait for, as for a new task."""
    new = changed(changes)
    if locks.take(work, TestGate, gates.awaited(work, new)):
        _postpone(work, changes, lambda _change: True, _gates_created)
        return
    gates.reevaluate(work, new)


def _gates_decided(work: UnitOfWork, changes: list[Change]) -> None:
    if not changes:
        return
    decided, parents = changed(changes), parents_of(changes, "workstream_id")
    if locks.take(work, Workstream, parents.keys() | tasks.workstreams_behind_gates(work, decided)):
        _postpone(work, changes, lambda _change: True, _gates_decided)
        return
    rejected = tasks.rejected_by(work, changed(filter(gates.has_failed_for_good, changes)))
    gates.rerun_for_repair(work, [gate_id for _task_id, gate_id in rejected])
    tasks.repair(work, {task_id: decided[gate_id] for task_id, gate_id in rejected})
    tasks.reevaluate(work, tasks.behind_gates(work, decided))
    gates.reevaluate(work, gates.dependents(work, decided))
    gates.rerun_failed(work, changes, workstreams.read_states(work, parents) if parents else {})
    workstreams.reevaluate(work, parents)


def _patches_changed(work: UnitOfWork, changes: list[Change]) -> None:
    ended, verified = _in_states(changes, *patch_ledger.FINAL), _in_states(changes, *task.VERIFIED, QUARANTINED)
    if not ended and not verified:
        return
    parents = workstreams.with_successors(work, parents_of(ended, "workstream_id"))
    if locks.take(work, Workstream, parents.keys() | parents_of(verified, "workstream_id").keys()):
        _postpone(work, changes, lambda _change: True, _patches_changed)
        return
    tasks.reevaluate(work, tasks.with_patches(work, changed(verified)))
    workstreams.reevaluate(work, parents)


# The machine and its rules; registered in statecore/apps.py.
REACTIONS: list[tuple[str, Callable[[UnitOfWork, list[Change]], None]]] = [
    ("task", _tasks_changed),
    ("workstream", _workstreams_changed),
    ("run", _runs_changed),
    ("test_gate", _gates_changed),
    ("patch_ledger", _patches_changed),
    ("worker", workers.react),
    ("supervised_job", supervised.react),
]

# The machine and its rules for edits, which change no state.
EDIT_REACTIONS: list[tuple[str, registry.EditReaction]] = [("task", run_queues.follow_priority)]


# Helpers


def _in_states(changes: Iterable[Change], *states: str) -> list[Change]:
    return [change for change in changes if change.entry.to_state in states]


def _is_new(change: Change) -> bool:
    return not change.entry.from_state


def _postpone(
    work: UnitOfWork,
    changes: list[Change],
    waits: Callable[[Change], bool],
    react: Callable[[UnitOfWork, list[Change]], None],
) -> list[Change]:
    """React to some changes after the commit; return the others."""
    if later := [change for change in changes if waits(change)]:
        work.postpone(partial(run_in_transaction, partial(_react_later, react, later)))
    return [change for change in changes if not waits(change)]


def _react_later(react: Callable[[UnitOfWork, list[Change]], None], changes: list[Change], work: UnitOfWork) -> None:
    react(work, changes)
