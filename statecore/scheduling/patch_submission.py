"""Submission of patches: an agent adds its diff to the patch ledger, and the task waits for it."""

from __future__ import annotations

from typing import Any

from .. import transitions
from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.refusals import Invalid, LeaseLost, NotFound, TerminalState
from ..kernel.transition import lease_lost_reason
from ..machines.task import State, Task
from ..transitions import Outcome, RequestKey, rights
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def submit_patch(
    model: type[Entity],
    *,
    actor: Actor,
    task: str | None = None,
    attempt: int | None = None,
    request: RequestKey | None = None,
    **fields: Any,
) -> Outcome:
    """Create an entry in the patch ledger.

    With `task`, the entry belongs to the task's workstream, and the validation of the task waits for it. A later patch
    of the same task replaces the one that the task waits for; the workstream still waits for both.
    """
    if attempt is not None and (type(attempt) is not int or task is None):
        raise Invalid({"attempt": ["must be a number, and needs `task`."]})
    if task is None:
        return transitions.create(model, actor=actor, request=request, **fields)

    def create_and_link(work: UnitOfWork) -> Outcome:
        waiting = _lock_task(work, task)
        _check_may_submit(actor, waiting, attempt)
        workstream = waiting.workstream_id
        if fields.setdefault("workstream", workstream) != workstream:
            raise Invalid({"workstream": [f"must be {workstream}, the workstream of task {task}."]})
        outcome = transitions.create(model, actor=actor, within=work, **fields)
        linked = {"patch": outcome.entity.pk if outcome.entity else None}
        transitions.amend(work, work.latest(waiting), linked, actor=actor)
        return outcome

    with counting_refusals(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return run_in_transaction(create_and_link, request=request, actor=actor)


def _lock_task(work: UnitOfWork, task_id: str) -> Any:
    try:
        return work.lock(Task, task_id)
    except NotFound as refusal:
        raise Invalid({"task": [f"{refusal.detail}."]}) from None


def _check_may_submit(actor: Actor, task: Any, attempt: object) -> None:
    """Agents submit for tasks they hold, with the current attempt; operators for any unfinished task."""
    rights.require(actor, Task.flow, "operate")
    if attempt != task.attempt and (attempt is not None or actor.kind is Kind.AGENT):
        raise LeaseLost("hand_in", [lease_lost_reason(task, attempt)], **task.current_facts())
    rights.require_own(actor, task)
    if actor.kind is Kind.AGENT and task.state != State.RUNNING:
        raise LeaseLost("hand_in", [lease_lost_reason(task, attempt)], **task.current_facts())
    if task.flow.is_final(task.state):
        raise TerminalState(f"{task} is {task.state}, which is final: it accepts no patch", **task.current_facts())
