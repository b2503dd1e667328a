"""Submission of plans: a whole run in one call and one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings

from .. import transitions
from ..journal import Entry
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.ids import new_id
from ..kernel.refusals import Invalid
from ..kernel.transition import Facts
from ..machines.run import Run, its_time_has_come
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..records import webhook, webhook_address
from ..transitions import Outcome, RequestKey, rights
from ..transitions.create import insert_entities
from ..transitions.outcome import counting_refusals
from ..transitions.successors import newest
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import plan_document
from .plan_document import Plan, read_plan, select_gate_values

NOUNS: dict[type[Entity], str] = {Workstream: "workstream", TestGate: "gate", Task: "task"}


@dataclass(slots=True)
class Submitted(Outcome):
    """An outcome that is rendered as the run and the numbers of its entities, without the many events.

    `webhook_secret` is not a part of the answer, which is stored to be repeated.
    """

    webhook_secret: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def submit_plan(plan: Mapping[str, Any], *, actor: Actor, request: RequestKey | None = None) -> Outcome:
    """Store the whole plan or nothing of it, and start the run if `start` is true, or later at its `not_before`.

    Raises Invalid with the errors by place, PermissionDenied, and DuplicateId for an id that is taken.
    """

    def store(work: UnitOfWork) -> Outcome:
        return _store(work, parsed, actor, starts=starts, webhook_url=plan.get("webhook"))

    with counting_refusals(Run.flow.entity_type):
        for model in (Run, Workstream, TestGate, Task):
            rights.require(actor, model.flow, "operate")
        if not isinstance(plan, Mapping):
            raise Invalid({"plan": ["must be an object."]})
        starts = plan.get("start", False)
        if not isinstance(starts, bool):
            raise Invalid({"start": ["must be true or false."]})
        parsed = read_plan(plan, _max_entities(actor))
        _require_webhook_host(plan.get("webhook"), actor)
        return run_in_transaction(store, request=request, actor=actor)


def _max_entities(actor: Actor) -> int:
    most = settings.STATECORE_AGENT_PLAN_ENTITIES if actor.kind is Kind.AGENT else plan_document.MAX_ENTITIES
    return min(most, plan_document.MAX_ENTITIES)


def _require_webhook_host(url: str | None, actor: Actor) -> None:
    """Agents have webhooks sent only to hosts that an operator has allowed."""
    if url is not None and actor.kind is Kind.AGENT:
        host = webhook_address.parse_target(url).host
        if not webhook_address.is_agent_host(host):
            sentence = f"has the host {host}, which STATECORE_AGENT_WEBHOOK_HOSTS does not allow agents."
            raise Invalid({"webhook": [sentence]})


def _store(work: UnitOfWork, plan: Plan, actor: Actor, *, starts: bool, webhook_url: str | None) -> Outcome:
    rights.require_linkable(actor, TestGate, _replace_retried_gates(work, plan))
    run_id = plan.run.get("id") or new_id(Run.flow.prefix)
    facts = Facts(now(), actor, {}, "")
    fields = {name: value for name, value in plan.run.items() if name != "id"}
    if starts and fields.get("not_before") is not None:
        fields["starts_automatically"] = True
    (run,) = changes = insert_entities(work, Run, {run_id: fields}, facts, None)
    workstreams = {pk: {**fields, "run": run.entity} for pk, fields in plan.workstreams.items()}
    created = _insert(work, Workstream, workstreams, plan, facts, run.entry)
    changes += created
    parents: dict[str, Entity] = {change.entity.pk: change.entity for change in created}
    gates = {pk: _add_parent(fields, parents, plan) for pk, fields in plan.gates.items()}
    changes += _insert(work, TestGate, gates, plan, facts, run.entry)
    tasks = {pk: _add_parent(fields, parents, plan) for pk, fields in plan.tasks.items()}
    changes += _insert(work, Task, tasks, plan, facts, run.entry)
    work.react(changes)
    entity = run.entity
    if starts and its_time_has_come(cast("Run", entity), facts) is None:
        entity = transitions.transition(Run, run_id, "run_started", actor=actor, within=work).entity or entity
    counts = {"workstreams": len(plan.workstreams), "tasks": len(plan.tasks), "gates": len(plan.gates)}
    answer = {"changed": True, "entity": entity.as_dict(), **counts}
    outcome = Submitted(entity, run.entry, answer=answer)
    if webhook_url is not None:
        hook, outcome.webhook_secret = webhook.create(
            webhook_url, created_by=actor.name, owner_id=actor.account_or_owner, run_id=run_id
        )
        answer["webhook"] = {"id": hook.pk}
    return outcome


def _replace_retried_gates(work: UnitOfWork, plan: Plan) -> set[str]:
    """Replace links to retried gates by links to their newest successors; return the existing gates it now links to.

    The gates are locked, so that a concurrent retry waits and then moves the new links to its successor.
    """
    if not plan.existing_gates:
        return set()
    work.lock_many(TestGate, sorted(plan.existing_gates))
    successors = {pk: newest(TestGate, pk) for pk in select_gate_values("retry_of_id", plan.existing_gates)}
    for entities, links in ((plan.tasks, ("gates", "entry_gates")), (plan.gates, ("depends_on",))):
        for fields in entities.values() if successors else ():
            for name in links:
                if name in fields:
                    fields[name] = list(dict.fromkeys(successors.get(each, each) for each in fields[name]))
    return {successors.get(each, each) for each in plan.existing_gates}


def _add_parent(fields: dict[str, Any], parents: dict[str, Entity], plan: Plan) -> dict[str, Any]:
    """Return the fields with the workstream instead of its id, so that no query loads it, or with the plan's phase."""
    if "workstream" in fields:
        return {**fields, "workstream": parents[fields["workstream"]]}
    return {"phase": plan.run.get("phase"), **fields}


def _insert(
    work: UnitOfWork, model: type[Entity], entities: dict[str, dict[str, Any]], plan: Plan, facts: Facts, cause: Entry
) -> Any:
    try:
        return insert_entities(work, model, entities, facts, cause)
    except Invalid as refusal:
        place = plan.places.get((NOUNS[model], str(refusal.facts.get("id"))), "plan")
        raise Invalid({f"{place}.{name}": errors for name, errors in refusal.facts["errors"].items()}) from refusal
