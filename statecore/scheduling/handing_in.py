"""Handing in a patch: an agent puts what it wrote for a task into the ledger, and the task waits for it."""

from __future__ import annotations

from typing import Any

from .. import door
from ..door import Outcome, RequestKey, rights, rows
from ..door.idempotency import answer_once
from ..door.perform import perform
from ..door.refused import counted
from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.lease import lost
from ..kernel.refusals import Invalid, LeaseLost, NotFound, TerminalState
from ..machines.task import Task
from ..records import audit_note


def hand_in(
    model: type[Entity],
    *,
    actor: Actor,
    task: str | None = None,
    attempt: int | None = None,
    request: RequestKey | None = None,
    **fields: Any,
) -> Outcome:
    """A new entry in the ledger; with `task` in its workstream, and the one the task waits for when it is validated.

    A task waits for the last one that was handed in for it; the others are still its workstream's to wait for.
    """
    if attempt is not None and (type(attempt) is not int or task is None):
        raise Invalid({"attempt": ["must be the number of an attempt at the task that is named too."]})
    if task is None:
        return door.create(model, actor=actor, request=request, **fields)

    def step() -> Outcome:
        waiting = _locked(task)
        _may_have_it(actor, waiting, attempt)
        belongs = waiting.workstream_id
        if fields.setdefault("workstream", belongs) != belongs:
            raise Invalid({"workstream": [f"is not that of task {task}, which belongs to {belongs}."]})
        outcome = door.create(model, actor=actor, **fields)
        _link(waiting, outcome.entity.pk if outcome.entity else "", actor)
        return outcome

    with counted(model.flow.entity_type):
        rights.require(actor, model.flow, "operate")
        return perform(lambda: answer_once(request, actor, step))


def _locked(task_id: object) -> Any:
    try:
        return rows.lock(Task, task_id)  # type: ignore[arg-type]
    except NotFound as refusal:
        raise Invalid({"task": [f"{refusal.detail}."]}) from None


def _may_have_it(actor: Actor, task: Any, attempt: object) -> None:
    """An agent hands in for what it holds, under the attempt it was given; an operator for whatever is to end yet."""
    rights.require(actor, Task.flow, "operate")
    if attempt != task.attempt and (attempt is not None or actor.kind is Kind.AGENT):
        raise LeaseLost("hand_in", [lost(task, attempt)], **task.standing())
    rights.must_be_its_own(actor, task)
    if task.flow.is_final(task.state):
        raise TerminalState(f"{task} is {task.state}, which is final: it waits for no patch", **task.standing())


def _link(task: Any, patch_id: str, actor: Actor) -> None:
    """No move, so no event: what it waited for before, and who said so, is noted."""
    facts = {"patch": f"{task.patch_id!r} → {patch_id!r}"}
    task.patch_id = patch_id
    Task.objects.filter(pk=task.pk).update(patch=patch_id)
    audit_note.note(
        audit_note.Kind.EDITED, actor=actor, entity_type=Task.flow.entity_type, entity_id=task.pk,
        detail="changed patch", facts=facts,
    )  # fmt: skip
