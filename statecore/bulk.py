"""One trigger for many entities: at once while they are few, as a job that is worked off in portions when not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction

from . import door
from .door import rights
from .door.change import check_words
from .door.perform import perform
from .kernel import registry
from .kernel.actors import Actor, Channel, Kind
from .kernel.clock import now
from .kernel.entity import Entity
from .kernel.params import read_params
from .kernel.refusals import Invalid, PermissionDenied, Refusal, UnknownTrigger
from .kernel.ulid import is_valid_id, new_id
from .records import BulkJob, BulkPortion, Token

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
) -> list[dict[str, Any]]:
    """What became of each, in their order."""
    _check_trigger(model, trigger, params)
    items = door.transition_many(
        model, ids, trigger, actor=actor, params=params, reason=reason, metadata=metadata, dry_run=dry_run
    )
    return [told(item) for item in items]


def _check_trigger(model: type[Entity], trigger: str, params: Mapping[str, Any]) -> None:
    """One that no entity has is wrong for all of them, and for none; so are fields that none of its moves takes."""
    if trigger not in model.flow.triggers:
        raise UnknownTrigger(f"{model.flow.entity_type} has no trigger {trigger!r}", triggers=list(model.flow.triggers))
    complaints: list[Invalid] = []
    for move in model.flow.moves:
        if move.trigger == trigger:
            try:
                read_params(move.params, params)
            except Invalid as complaint:
                complaints.append(complaint)
            else:
                return
    raise complaints[0]


def told(item: door.Item) -> dict[str, Any]:
    """What became of one of many."""
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
    """Write down what is to be done; `run` does it. What every one of them would refuse is refused at once."""
    rights.require(actor, model.flow, "operate")
    _check_trigger(model, trigger, params)
    check_words(reason, {})
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
    """Go on with a job to its end; whoever was killed in the middle is followed by whoever comes next."""
    for _ in range(portions):
        if not perform(lambda: _portion(job_id)):
            return


def run_due() -> int:
    """The jobs that are not finished; how many there were."""
    waiting = list(BulkJob.objects.filter(finished_at=None).order_by("created_at").values_list("pk", flat=True)[:10])
    for job_id in waiting:
        run(job_id)
    return len(waiting)


def _portion(job_id: str) -> bool:
    """Move the next few and write down what became of them, in one transaction; False when there is nothing to do."""
    jobs = BulkJob.objects.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
    job = jobs.filter(pk=job_id, finished_at=None).first()
    if job is None:  # finished, or in other hands
        return False
    portion = job.portions.filter(results__isnull=True).order_by("number").first()
    if portion is not None:
        results = _results(job, portion.ids)
        portion.results = [_kept(told) for told in results]
        portion.save(update_fields=["results"])
        job.done += len(results)
        job.refused += sum(told["refusal"] is not None for told in results)
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
        told = {**refusal.as_dict(), "status": refusal.status}
        return [{"id": each, "changed": False, "event": None, "refusal": told} for each in ids]


def _actor(job: BulkJob) -> Actor:
    """With the rights its owner has now: a token that was revoked since moves nothing more."""
    if job.token is not None:
        if not job.token.is_good(now()):
            raise PermissionDenied(f"the token {job.token.name} is not valid any more", required="token")
        permission = registry.flow(job.entity_type).permission("operate")
        if not job.token.owner_holds(permission):
            raise PermissionDenied(f"the owner of {job.token.name} may not do this any more", required=permission)
        return job.token.as_agent() if job.actor_kind == Kind.AGENT else job.token.as_operator()
    if job.user is None or not job.user.is_active:
        raise PermissionDenied(f"{job.actor} is not active any more", required="user")
    user: Any = job.user
    return Actor.operator(user, Channel(job.channel))


def _kept(told: dict[str, Any]) -> dict[str, Any]:
    """Of an event only its id: the event itself is in the journal."""
    event = told.get("event")
    return {**told, "event": event and event["event_id"]}
