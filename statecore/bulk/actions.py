"""The actions that can be applied to many entities: what each needs, to which it applies, and how it is applied.

A trigger is applied to a portion in a few statements; every other action to one entity after the other, each in a
savepoint, so that policies, guards and refusals are those of the single call.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, QuerySet

from .. import transitions
from ..kernel.actors import Actor, Kind
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.refusals import (
    ApprovalRequired,
    GuardFailed,
    Invalid,
    PermissionDenied,
    Refusal,
    TerminalState,
    UnknownTrigger,
    Unmet,
)
from ..kernel.transition import Param, validate_params
from ..machines.run import Run
from ..machines.worker import Worker
from ..machines.workstream import PAUSABLE, Workstream
from ..machines.workstream import State as WorkstreamState
from ..records import incident as incidents
from ..records.incident import IncidentEntity
from ..scheduling import drain_worker, pauses
from ..transitions import rights
from ..transitions.change import validate_reason_and_metadata
from ..transitions.override import check_override, recording_refusals
from ..transitions.retry import require_retry
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from ..transitions.waivers import check_waiver
from .results import Result

TRY_SECONDS = 2.0  # of a dry run that tries one entity after the other, with the locks that it takes


class Name(StrEnum):
    TRANSITION = "transition"
    CANCEL = "cancel"
    RETRY = "retry"
    OVERRIDE = "override"
    WAIVE = "waive"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    ACKNOWLEDGE = "acknowledge"
    ASSIGN = "assign"


# The first word of the transitions that an action fires where the machine declares them for operators.
VERBS: dict[str, set[str]] = {
    Name.CANCEL: {"cancel"},
    Name.PAUSE: {"pause", "suspend"},
    Name.RESUME: {"resume"},
    Name.DRAIN: {"drain"},
}


OPTIONS = ("trigger", "to_state", "category", "expires_at", "metadata")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done to each entity; which of the fields are needed depends on the action."""

    action: str = Name.TRANSITION
    trigger: str = ""
    to_state: str = ""
    reason: str = ""
    category: str = ""
    expires_at: datetime | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BulkAction(ABC):
    """An action with its request, for the entities of one machine."""

    model: type[Entity]
    request: Request
    # How many entities are one transaction, whose locks delay others, and how many are changed within a request.
    portion: ClassVar[int] = 20
    at_once: ClassVar[int] = 100
    permission: ClassVar[str] = "operate"
    # The fields of a request that it takes, beside `action` and `reason`.
    takes: ClassVar[tuple[str, ...]] = ()

    @property
    def flow(self) -> Flow:
        return self.model.flow

    def check(self, actor: Actor) -> None:
        """Refuse what every entity would refuse."""
        given = {name for name in OPTIONS if getattr(self.request, name)} | self.request.params.keys()
        taken = {*self.takes, *(self.request.params if "params" in self.takes else ())}
        if given - taken:
            raise Invalid({name: [f"is not a field of {self.request.action}."] for name in sorted(given - taken)})
        validate_reason_and_metadata(self.request.reason, self.request.metadata, self.request.params)
        self.check_request(actor)

    def check_request(self, actor: Actor) -> None:
        """Require an operator with the permission: agents take none of these actions."""
        if actor.kind is not Kind.OPERATOR:
            required = self.flow.permission(self.permission)
            raise PermissionDenied(f"only an operator may {self.request.action} many", required=required)
        rights.require(actor, self.flow, self.permission)

    def fields(self) -> tuple[Param, ...]:
        """The fields that `params` may have."""
        return ()

    def states(self) -> Collection[str]:
        """The states in which the action is open."""
        return self.flow.live

    def is_decided_by_state(self) -> bool:
        """Whether the action applies to every entity in one of its states, so that `select` adds no condition."""
        return False

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows, of those in `states`, to which the action applies as far as a query can decide."""
        return rows

    @abstractmethod
    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        """Apply the action to each entity and return the results in their order; a refusal changes only its own."""

    def try_out(self, ids: list[str], *, actor: Actor) -> list[Result]:
        """Apply the action and roll it back."""
        return self.apply(ids, actor=actor, dry_run=True)


class ActionForEach(BulkAction):
    """An action that is applied to one entity after the other, each in a savepoint."""

    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        def apply_to_each(work: UnitOfWork) -> list[Result]:
            return [self._attempt(work, entity_id, actor) for entity_id in ids]

        return run_in_transaction(apply_to_each, within=within, dry_run=dry_run)

    def try_out(self, ids: list[str], *, actor: Actor) -> list[Result]:
        """Apply the action and roll it back; where it takes long, only to the first entities."""

        def try_each(work: UnitOfWork) -> list[Result]:
            ends, results = time.monotonic() + TRY_SECONDS, []
            for entity_id in ids:
                results.append(self._attempt(work, entity_id, actor))
                if time.monotonic() > ends:
                    break
            return results

        return run_in_transaction(try_each, dry_run=True)

    def _attempt(self, work: UnitOfWork, entity_id: str, actor: Actor) -> Result:
        try:
            return run_in_transaction(partial(self.apply_to_one, entity_id, actor), within=work)
        except Refusal as refusal:
            return Result(entity_id, refusal=refusal)

    @abstractmethod
    def apply_to_one(self, entity_id: str, actor: Actor, work: UnitOfWork) -> Result:
        """Apply the action; raises the refusal of the single call."""


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


class Acknowledge(BulkAction):
    """Acknowledge the open incidents on which the entities hang, each once."""

    portion = 500
    at_once = 500

    def check_request(self, actor: Actor) -> None:
        super().check_request(actor)
        if not actor.has_permission(incidents.CHANGE_PERMISSION):
            raise PermissionDenied(f"{actor.name} may not change incidents", required=incidents.CHANGE_PERMISSION)

    def states(self) -> Collection[str]:
        return self.flow.states

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(pk__in=self.find_open().values("entity_id"))

    def find_open(self) -> QuerySet[IncidentEntity]:
        """The rows of the entities of this machine whose incidents the action changes."""
        return self.find_entities().filter(incident__acknowledged_at=None)

    def find_entities(self) -> QuerySet[IncidentEntity]:
        return IncidentEntity.objects.filter(entity_type=self.flow.entity_type, incident__resolved_at=None)

    def apply(
        self, ids: list[str], *, actor: Actor, dry_run: bool = False, within: UnitOfWork | None = None
    ) -> list[Result]:
        def change(_work: UnitOfWork) -> list[Result]:
            hanging = dict(self.find_entities().filter(entity_id__in=ids).values_list("entity_id", "incident_id"))
            open_ids = set(self.find_open().filter(entity_id__in=ids).values_list("incident_id", flat=True))
            for incident_id in sorted(open_ids):
                self.change_incident(incident_id, actor)
            return [self._describe(pk, hanging.get(pk), open_ids) for pk in ids]

        return run_in_transaction(change, within=within, dry_run=dry_run)

    def change_incident(self, incident_id: int, actor: Actor) -> None:
        incidents.acknowledge(incident_id, actor.name, note=self.request.reason)

    def _describe(self, entity_id: str, incident_id: int | None, changed: set[int]) -> Result:
        if incident_id is None:
            about = f"{self.flow.entity_type} {entity_id} hangs on no open incident"
            return Result(entity_id, refusal=GuardFailed(self.request.action, [Unmet("no_incident", about)]))
        return Result(entity_id, incident_id in changed)


class Assign(Acknowledge):
    """Set the owner of the incidents; an empty name removes it."""

    takes = ("params",)

    def check_request(self, actor: Actor) -> None:
        super().check_request(actor)
        validate_params(self.fields(), self.request.params)

    def fields(self) -> tuple[Param, ...]:
        return (Param("owner", str, nullable=False, required=False),)

    def find_open(self) -> QuerySet[IncidentEntity]:
        return self.find_entities().exclude(incident__owner=self.owner)

    @property
    def owner(self) -> str:
        return str(self.request.params.get("owner", ""))

    def change_incident(self, incident_id: int, actor: Actor) -> None:
        incidents.assign(incident_id, actor.name, self.owner, note=self.request.reason)


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
