"""One trigger for many entities: at once while they are few, as a job that is worked off in portions when not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.db import connection, transaction

from .. import transitions
from ..kernel import registry
from ..kernel.actors import Actor, Channel, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import Invalid, PermissionDenied, Refusal, UnknownTrigger
from ..kernel.transition import validate_params
from ..records import BulkJob, BulkPortion, Token
from . import rights
from .change import validate_reason_and_metadata
from .unit_of_work import UnitOfWork, retry_transient

AT_ONCE = 500
MOST = 100_000
PORTION = 500


def check(ids: Iterable[Any]) -> list[str]:
    """The ids, each once, in the order given; refused if they are too many or no ids."""
    wanted = list(dict.fromkeys(each for each in ids if isinstance(each, str)))
    if not all(is_valid_id(each) for each in wanted):
        raise Invalid({"ids": ["must be a list of ids."]})
    if len(wanted) > MOST:
        raise Invalid({"ids": [f"must be at most {MOST}."]})
    return wanted


def fire(
    model: type[Entity],
    ids: list[str],
    trigger: str,
    *,
    actor: Actor,
    params: Mapping[str, Any],
    reason: str,
    metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> list[dict[str, Any]]:
    """Apply the trigger to each entity and return the results in their order."""
    _check_trigger(model, trigger, params)
    items = transitions.transition_many(
        model,
        ids,
        trigger,
        actor=actor,
        params=params,
        reason=reason,
        metadata=metadata,
        dry_run=dry_run,
        within=within,
    )
    return [serialize_item(item) for item in items]


def _check_trigger(model: type[Entity], trigger: str, params: Mapping[str, Any]) -> None:
    """Refuse a trigger the machine does not have, and fields that none of its transitions take."""
    if trigger not in model.flow.triggers:
        raise UnknownTrigger(f"{model.flow.entity_type} has no trigger {trigger!r}", triggers=list(model.flow.triggers))
    complaints: list[Invalid] = []
    for declared in model.flow.transitions:
        if declared.trigger == trigger:
            try:
                validate_params(declared.params, params)
            except Invalid as complaint:
                complaints.append(complaint)
            else:
                return
    raise complaints[0]


def serialize_item(item: transitions.Item) -> dict[str, Any]:
    if item.refusal is not None:
        return {
            "id": item.entity_id,
            "changed": False,
            "event": None,
            "refusal": {**item.refusal.as_dict(), "status": item.refusal.status},
        }
    outcome = item.outcome
    made = outcome.as_dict() if outcome else {"changed": False, "event": None}
    return {"id": item.entity_id, "changed": made["changed"], "event": made["event"], "refusal": None}


def begin(
    model: type[Entity],
    ids: list[str],
    trigger: str,
    *,
    actor: Actor,
    user: Any,
    token: Token | None,
    params: Mapping[str, Any],
    reason: str,
) -> BulkJob:
    """Create a job for `run`; a request that every entity would refuse is refused at once."""
    rights.require(actor, model.flow, "operate")
    _check_trigger(model, trigger, params)
    validate_reason_and_metadata(reason, {})
    with transaction.atomic():
        job = BulkJob.objects.create(
            id=new_id("bulk"),
            entity_type=model.flow.entity_type,
            trigger=trigger,
            params=dict(params),
            reason=reason,
            user=user,
            token=token,
            actor=actor.name,
            actor_kind=actor.kind,
            channel=actor.channel,
            total=len(ids),
            created_at=now(),
        )
        for number, first in enumerate(range(0, len(ids), PORTION), 1):
            BulkPortion.objects.create(job=job, number=number, ids=ids[first : first + PORTION])
    return job


def run(job_id: str, portions: int = 1_000_000) -> None:
    """Continue a job to its end; after a killed process the next call continues it."""
    for _ in range(portions):
        if not retry_transient(transaction.atomic(partial(_run_portion, job_id))):
            return


def run_due() -> int:
    """Continue unfinished jobs; return how many there were."""
    waiting = list(BulkJob.objects.filter(finished_at=None).order_by("created_at").values_list("pk", flat=True)[:10])
    for job_id in waiting:
        run(job_id)
    return len(waiting)


def _run_portion(job_id: str) -> bool:
    """Apply the trigger to the next portion and store the results; return False when nothing is left to do."""
    jobs = BulkJob.objects.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
    job = jobs.filter(pk=job_id, finished_at=None).first()
    if job is None:  # finished, or locked by another process
        return False
    portion = job.portions.filter(results__isnull=True).order_by("number").first()
    if portion is not None:
        results = _results(job, portion.ids)
        portion.results = [_without_event(result) for result in results]
        portion.save(update_fields=["results"])
        job.done += len(results)
        job.refused += sum(result["refusal"] is not None for result in results)
    job.finished_at = now() if portion is None or job.done >= job.total else None
    job.save(update_fields=["done", "refused", "finished_at"])
    return job.finished_at is None


def _results(job: BulkJob, ids: list[str]) -> list[dict[str, Any]]:
    try:
        actor = _actor(job)
        model = registry.flow(job.entity_type).model
        return fire(
            model, ids, job.trigger, actor=actor, params=job.params, reason=job.reason, metadata={"bulk_job": job.pk}
        )
    except Refusal as refusal:
        details = {**refusal.as_dict(), "status": refusal.status}
        return [{"id": each, "changed": False, "event": None, "refusal": details} for each in ids]


def _actor(job: BulkJob) -> Actor:
    """Return the actor with its current rights: a token that was revoked since changes nothing more."""
    if job.token is not None:
        if not job.token.is_good(now()):
            raise PermissionDenied(f"the token {job.token.name} is not valid any more", required="token")
        permission = registry.flow(job.entity_type).permission("operate")
        if not job.token.owner_holds(permission):
            raise PermissionDenied(f"the owner of {job.token.name} may not do this any more", required=permission)
        return job.token.as_kind(Kind(job.actor_kind))
    if job.user is None or not job.user.is_active:
        raise PermissionDenied(f"{job.actor} is not active any more", required="user")
    user: Any = job.user
    return Actor.operator(user, Channel(job.channel))


def _without_event(result: dict[str, Any]) -> dict[str, Any]:
    """Keep only the id of the event, which is in the journal."""
    event = result.get("event")
    return {**result, "event": event and event["event_id"]}
