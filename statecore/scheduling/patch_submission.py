"""Submission of patches: an agent adds its diff to the patch ledger, and the task waits for it."""

from __future__ import annotations

from typing import Any, cast

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id
from ..kernel.refusals import Invalid, NotFound, TerminalState
from ..machines.patch_ledger import PatchLedger
from ..machines.patch_ledger import State as PatchState
from ..machines.task import Task
from ..machines.workstream import Workstream
from ..transitions import Outcome, RequestKey, rights
from ..transitions.outcome import counting_refusals
from ..transitions.successors import newest
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def submit_patch(
    model: type[Entity],
    *,
    actor: Actor,
    task: str | None = None,
    attempt: int | None = None,
    based_on: str | None = None,
    request: RequestKey | None = None,
    **fields: Any,
) -> Outcome:
    """Create an entry in the patch ledger.

    With `task`, the entry belongs to the task's workstream, and the validation of the task waits for it. A later patch
    of the same task replaces the one that the task waits for; the workstream still waits for both.
    With `based_on`, it is the successor of a quarantined entry, which is dropped; it belongs to the same workstream, or
    the newest successor of that, unless another one is given.
    """
    if attempt is not None and (type(attempt) is not int or task is None):
        raise Invalid({"attempt": ["must be a number, and needs `task`."]})

    def create_and_link(work: UnitOfWork) -> Outcome:
        waiting = _lock_task(work, task, actor, attempt) if task is not None else None
        given = dict(fields)
        if waiting is not None and given.setdefault("workstream", waiting.workstream_id) != waiting.workstream_id:
            raise Invalid({"workstream": [f"must be {waiting.workstream_id}, the workstream of task {task}."]})
        replaced = _drop_quarantined(work, based_on, actor) if based_on is not None else None
        if replaced is not None:
            given.setdefault("workstream", newest(Workstream, replaced.workstream_id))
        outcome = transitions.create(model, actor=actor, within=work, replaces=replaced, **given)
        if waiting is not None and outcome.entity is not None:
            superseded = waiting.patch_id
            transitions.amend(work, work.latest(waiting), {"patch": outcome.entity.pk}, actor=actor)
            if waiting.max_repairs:
                _drop_superseded(work, model, superseded, outcome.entity)
        return outcome

    with counting_refusals(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return run_in_transaction(create_and_link, request=request, actor=actor)


def _drop_superseded(work: UnitOfWork, model: type[Entity], patch_id: str | None, successor: Entity) -> None:
    """Drop the patch of a task before this one, if it is quarantined."""
    if model.objects.filter(pk=patch_id, state="quarantined").exists():
        reason = f"replaced by {successor}"
        transitions.transition(model, str(patch_id), "discarded", actor=THE_SYSTEM, reason=reason, within=work)


def _drop_quarantined(work: UnitOfWork, patch_id: object, actor: Actor) -> PatchLedger:
    """Drop the entry that a new patch replaces; raises Invalid unless it is quarantined, and PermissionDenied."""
    entry = PatchLedger.objects.filter(pk=patch_id).first() if is_valid_id(patch_id) else None
    if entry is None or entry.state != PatchState.QUARANTINED:
        found = f"patch {entry.pk} is {entry.state}" if entry else "there is no such patch"
        raise Invalid({"based_on": [f"must be a quarantined patch: {found}."]})
    outcome = transitions.transition(
        PatchLedger, entry.pk, "discarded", actor=actor, reason="a new patch replaces it", within=work
    )
    return cast("PatchLedger", outcome.entity)


def _lock_task(work: UnitOfWork, task_id: str, actor: Actor, attempt: object) -> Any:
    try:
        task = work.lock(Task, task_id)
    except NotFound as refusal:
        raise Invalid({"task": [f"{refusal.detail}."]}) from None
    _check_may_submit(actor, task, attempt)
    return task


def _check_may_submit(actor: Actor, task: Any, attempt: object) -> None:
    """Agents submit for tasks they hold, with the current attempt; operators for any unfinished task."""
    rights.require(actor, Task.flow, "operate")
    rights.require_attempt(actor, task, attempt, "hand_in")
    if task.flow.is_final(task.state):
        raise TerminalState(f"{task} is {task.state}, which is final: it accepts no patch", **task.current_facts())
