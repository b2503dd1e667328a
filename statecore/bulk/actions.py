"""The actions that can be applied to many entities: what each needs, to which it applies, and how it is applied.

A trigger is applied to a portion in a few statements; every other action to one entity after the other, each in a
savepoint, so that policies, guards and refusals are those of the single call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, QuerySet

from .. import transitions
from ..kernel.actors import Actor, Kind
from ..kernel.flow import Flow
from ..kernel.refusals import ApprovalRequired, Invalid, TerminalState, UnknownTrigger
from ..kernel.transition import Param, validate_params
from ..machines.run import Run
from ..machines.worker import Worker
from ..machines.workstream import PAUSABLE, Workstream
from ..machines.workstream import State as WorkstreamState
from ..scheduling import drain_worker, pauses
from ..transitions import rights
from ..transitions.override import check_override, recording_refusals
from ..transitions.retry import require_retry
from ..transitions.unit_of_work import UnitOfWork
from ..transitions.waivers import check_waiver
from .base import ActionForEach, BulkAction, Name, Request
from .incident_actions import Acknowledge, Assign
from .results import Result

# The first word of the transitions that an action fires where the machine declares them for operators.
VERBS: dict[str, set[str]] = {
    Name.CANCEL: {"cancel"},
    Name.PAUSE: {"pause", "suspend"},
    Name.RESUME: {"resume"},
    Name.DRAIN: {"drain"},
}


class Fire(ActionForEach):
    """Fire a trigger, in one batch."""

    portion = 500
    at_once = 500
    takes = ("trigger", "params", "metadata")

    def check_request(self, actor: Actor) -> None:
        rights.require(actor, self.flow, "operate")
        _check_trigger(self.flow, self.request.trigger, self.request.params)

    def fields(self) -> tuple[Param, ...]:
        fired = (each for each in self.flow.transitions if each.trigger == self.request.trigger)
        return next((each.params for each in fired), ())

    def states(self) -> Collection[str]:
        fired = [each for each in self.flow.transitions if each.trigger == self.request.trigger]
        return {source for each in fired if Kind.OPERATOR in each.actors for source in each.sources}

    def is_decided_by_state(self) -> bool:
        return True

    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        request = self.request
        given: dict[str, Any] = {"params": request.params, "reason": request.reason, "metadata": request.metadata}
        try:
            items = transitions.transition_many(
                self.model, ids, request.trigger, actor=actor, dry_run=dry_run, within=within, **given
            )
        except ApprovalRequired:  # for some of them, so each is tried on its own
            return super().apply(ids, actor=actor, dry_run=dry_run, within=within)
        return [Result.of_item(item) for item in items]

    def try_out(self, ids: list[str], *, actor: Actor) -> list[Result]:
        return self.apply(ids, actor=actor, dry_run=True)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        request = self.request
        given: dict[str, Any] = {"params": request.params, "reason": request.reason, "metadata": request.metadata}
        outcome = transitions.transition(self.model, entity_id, request.trigger, actor=actor, within=work, **given)
        return Result.of_outcome(entity_id, outcome)


class Retry(ActionForEach):
    def check_request(self, actor: Actor) -> None:
        require_retry(self.model, actor)

    def states(self) -> Collection[str]:
        return set(self.flow.final)

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(successor=None)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        outcome = transitions.retry(self.model, entity_id, actor=actor, reason=self.request.reason, within=work)
        return Result.of_outcome(entity_id, outcome)


class Override(ActionForEach):
    permission = "override"
    takes = ("to_state", "category", "metadata")

    def check_request(self, actor: Actor) -> None:
        request = self.request
        asked = {"to_state": request.to_state, "reason": request.reason, "category": request.category}
        with recording_refusals(self.model, "", actor, asked, is_preview=True):
            check_override(self.model, actor, request.to_state, request.reason, request.category)

    def states(self) -> Collection[str]:
        target, may_force = self.request.to_state, self.flow.may_force
        return {state for state in self.flow.states if state != target and may_force(state, target)}

    def is_decided_by_state(self) -> bool:
        return not any(map(self.flow.is_final, self.states()))

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(successor=None)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        request = self.request
        outcome = transitions.override(
            self.model,
            entity_id,
            request.to_state,
            actor=actor,
            reason=request.reason,
            category=request.category,
            metadata=request.metadata,
            within=work,
        )
        return Result.of_outcome(entity_id, outcome)


class Waive(ActionForEach):
    permission = "waive"
    takes = ("category", "expires_at")

    def check_request(self, actor: Actor) -> None:
        check_waiver(self.model, actor, self.request.reason, self.request.category, self.request.expires_at)

    def states(self) -> Collection[str]:
        return set(self.flow.states) - set(self.flow.done)

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(successor=None, waived=False, abandoned=False)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        request = self.request
        outcome = transitions.waive(
            self.model,
            entity_id,
            actor=actor,
            reason=request.reason,
            category=request.category,
            expires_at=request.expires_at,
            within=work,
        )
        return Result.of_outcome(entity_id, outcome)


class PauseRun(ActionForEach):
    """Pause the workstreams of runs."""

    workstream_states: ClassVar[Collection[str]] = PAUSABLE

    def check_request(self, actor: Actor) -> None:
        super().check_request(actor)
        rights.require(actor, Workstream.flow, "operate")

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(Exists(Workstream.objects.filter(run=OuterRef("pk"), state__in=self.workstream_states)))

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        items = pauses.pause_run(entity_id, actor=actor, reason=self.request.reason, until=None, within=work)
        return _combine(entity_id, items)


class ResumeRun(PauseRun):
    workstream_states = (WorkstreamState.PAUSED,)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        return _combine(entity_id, pauses.resume_run(entity_id, actor=actor, reason=self.request.reason, within=work))


class DrainWorker(ActionForEach):
    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(draining=False)

    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        worker: Any = work.lock(self.model, entity_id)
        if worker.has_ended():
            raise TerminalState(f"{worker} has ended", **worker.current_facts())
        was_draining, before = worker.draining, len(work.entries)
        drain_worker(entity_id, actor=actor, reason=self.request.reason, within=work)
        own, *caused = [*work.entries[before:], None]
        return Result(entity_id, not was_draining or own is not None, own, tuple(filter(None, caused)))


def resolve(flow: Flow, request: Request) -> BulkAction:
    """Return the action that a request names; raises Invalid if the machine has none of that name."""
    if request.action == Name.TRANSITION:
        return Fire(flow.model, request)
    if kind := _actions_beside_triggers(flow).get(request.action):
        return kind(flow.model, request)
    if trigger := _find_trigger(flow, request.action):
        if request.trigger:
            raise Invalid({"trigger": ["is a field of transition."]})
        return Fire(flow.model, replace(request, trigger=trigger))
    raise Invalid({"action": [f"is not an action of {flow.collection}; use one of {', '.join(list_names(flow))}."]})


def list_names(flow: Flow) -> list[str]:
    """Return the names that a request may have as its action."""
    own = _actions_beside_triggers(flow)
    return [name for name in Name if name == Name.TRANSITION or name in own or _find_trigger(flow, name)]


def list_actions(flow: Flow) -> list[BulkAction]:
    """Return everything that operators can do to entities of a machine, each once, without reasons and fields."""
    requests = [Request(trigger=trigger) for trigger in _operators_triggers(flow)]
    requests += [Request(action=name) for name in _actions_beside_triggers(flow) if name != Name.OVERRIDE]
    requests += [Request(action=Name.OVERRIDE, to_state=state) for state in flow.states]
    return [resolve(flow, request) for request in requests]


def _actions_beside_triggers(flow: Flow) -> dict[str, type[BulkAction]]:
    found: dict[str, type[BulkAction]] = {
        Name.OVERRIDE: Override,
        Name.ACKNOWLEDGE: Acknowledge,
        Name.ASSIGN: Assign,
    }
    if flow.final:
        found[Name.RETRY] = Retry
    if flow.may_be_waived():
        found[Name.WAIVE] = Waive
    if flow is Run.flow:
        found |= {Name.PAUSE: PauseRun, Name.RESUME: ResumeRun}
    if flow is Worker.flow:
        found[Name.DRAIN] = DrainWorker
    return found


def _operators_triggers(flow: Flow) -> list[str]:
    return list(dict.fromkeys(each.trigger for each in flow.transitions if Kind.OPERATOR in each.actors))


def _find_trigger(flow: Flow, action: str) -> str | None:
    """Return the trigger of operators whose transitions begin with a verb of the action: `suspend_when_idle`."""
    verbs = VERBS.get(action, set())
    declared = [each for each in flow.transitions if Kind.OPERATOR in each.actors]
    return next((each.trigger for each in declared if each.name.partition("_")[0] in verbs), None)


def _combine(entity_id: str, items: list[transitions.Item]) -> Result:
    """The result of a run whose workstreams were changed; raises the refusal if all were refused."""
    done = [item.outcome for item in items if item.outcome is not None]
    if not done and items and items[0].refusal is not None:
        raise items[0].refusal
    entries = (entry for outcome in done for entry in (outcome.entry, *outcome.caused))
    return Result(entity_id, any(outcome.changed for outcome in done), None, tuple(filter(None, entries)))


def _check_trigger(flow: Flow, trigger: str, params: Mapping[str, Any]) -> None:
    """Refuse a trigger the machine does not have, and fields that none of its transitions take."""
    declared = [each for each in flow.transitions if each.trigger == trigger]
    if not declared:
        raise UnknownTrigger(f"{flow.entity_type} has no trigger {trigger!r}", triggers=list(flow.triggers))
    complaints: list[Invalid] = []
    for each in declared:
        try:
            validate_params(each.params, params)
        except Invalid as complaint:
            complaints.append(complaint)
        else:
            return
    raise complaints[0]
