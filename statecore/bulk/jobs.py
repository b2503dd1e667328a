"""Bulk jobs: a large selection is stored and worked through in portions, each one transaction with its results.

After a killed process the next call continues with the first portion without results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, QuerySet

from ..kernel import registry
from ..kernel.actors import Actor, Channel, Kind
from ..kernel.clock import now
from ..kernel.flow import Flow
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import Invalid, PermissionDenied, Refusal
from ..records import BulkJob, BulkPortion, Token
from ..transitions import rights
from ..transitions.unit_of_work import retry_transient
from .actions import list_actions, resolve
from .base import BulkAction, Name, Request
from .results import Result, count_caused, describe_caused

MOST = 100_000


def check_ids(ids: Iterable[Any]) -> list[str]:
    """The ids, each once, in the order given; refused if they are too many or no ids."""
    wanted = list(dict.fromkeys(each for each in ids if isinstance(each, str)))
    if not all(is_valid_id(each) for each in wanted):
        raise Invalid({"ids": ["must be a list of ids."]})
    if len(wanted) > MOST:
        raise Invalid({"ids": [f"must be at most {MOST}."]})
    return wanted


# What would happen


def count_applicable(flow: Flow, ids: list[str]) -> list[tuple[BulkAction, int]]:
    """Return the actions that apply to at least one of the entities, judged by their rows, each with the number."""
    rows = flow.model.objects.filter(pk__in=ids)
    states = dict(rows.order_by().values_list("state").annotate(count=Count("pk")))
    counted = ((action, _count(action, rows, states)) for action in list_actions(flow))
    return [(action, count) for action, count in counted if count]


def _count(action: BulkAction, rows: QuerySet[Any], states: dict[str, int]) -> int:
    """Only an action that depends on more than the state costs a query."""
    open_in = action.states()
    if not any(states.get(state) for state in open_in):
        return 0
    if action.is_decided_by_state():
        return sum(states.get(state, 0) for state in open_in)
    return find_applicable(action, rows).count()


def find_applicable(action: BulkAction, rows: QuerySet[Any]) -> QuerySet[Any]:
    return action.select(rows.filter(state__in=sorted(action.states())))


@dataclass(frozen=True, slots=True)
class Preview:
    """A dry run for the first `tried` of the entities to which the action applies, which are `applicable` in all."""

    applicable: int
    results: list[Result]

    @property
    def tried(self) -> int:
        return len(self.results)

    @property
    def refused(self) -> int:
        return sum(result.refusal is not None for result in self.results)

    @property
    def approvals(self) -> int:
        return sum(result.approval is not None for result in self.results)

    @property
    def caused(self) -> list[dict[str, Any]]:
        return describe_caused(count_caused(self.results))


def preview(action: BulkAction, ids: list[str], actor: Actor) -> Preview:
    """Apply the action to the first entities that it applies to, and roll it back."""
    action.check(actor)
    rows = find_applicable(action, action.model.objects.filter(pk__in=ids)).order_by("pk")
    sample = list(rows.values_list("pk", flat=True)[: action.at_once + 1])
    total = len(sample) if len(sample) <= action.at_once else rows.count()
    return Preview(total, action.try_out(sample[: action.at_once], actor=actor))


# Jobs


def begin(action: BulkAction, ids: list[str], *, actor: Actor, user: Any, token: Token | None) -> BulkJob:
    """Create a job for `run`; a request that every entity would refuse is refused at once."""
    action.check(actor)
    request = action.request
    with transaction.atomic():
        job = BulkJob.objects.create(
            id=new_id("bulk"),
            entity_type=action.flow.entity_type,
            action=request.action,
            trigger=request.trigger,
            to_state=request.to_state,
            category=request.category,
            expires_at=request.expires_at,
            params=dict(request.params),
            reason=request.reason,
            user=user,
            token=token,
            actor=actor.name,
            actor_kind=actor.kind,
            channel=actor.channel,
            total=len(ids),
            created_at=now(),
        )
        firsts = enumerate(range(0, len(ids), action.portion), 1)
        BulkPortion.objects.bulk_create(
            BulkPortion(job=job, number=number, ids=ids[first : first + action.portion]) for number, first in firsts
        )
    return job


def run(job_id: str, portions: int = 1_000_000) -> None:
    """Continue a job to its end, unless it is stopped; after a killed process the next call continues it."""
    for _ in range(portions):
        if not retry_transient(transaction.atomic(partial(_run_portion, job_id))):
            return


def run_due() -> int:
    """Continue unfinished jobs; return how many there were."""
    waiting = list(BulkJob.objects.filter(finished_at=None).order_by("created_at").values_list("pk", flat=True)[:10])
    for job_id in waiting:
        run(job_id)
    return len(waiting)


def stop(job: BulkJob, actor: Actor) -> bool:
    """End a job after the portion that is running; return False if it had finished. What is done stays."""
    rights.require(actor, registry.flow(job.entity_type), "operate")
    unfinished = BulkJob.objects.filter(pk=job.pk, finished_at=None)
    return bool(unfinished.update(stopped_by=actor.name, finished_at=now()))


def _run_portion(job_id: str) -> bool:
    """Apply the action to the next portion and store the results; return False when nothing is left to do."""
    jobs = BulkJob.objects.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
    job = jobs.filter(pk=job_id, finished_at=None).first()
    if job is None:  # finished or stopped, or locked by another process
        return False
    portion = job.portions.filter(results__isnull=True).order_by("number").first()
    if portion is not None:
        results = _apply(job, portion.ids)
        portion.results = [_without_event(result.as_dict()) for result in results]
        portion.save(update_fields=["results"])
        job.done += len(results)
        job.refused += sum(result.refusal is not None for result in results)
        job.approvals += sum(result.approval is not None for result in results)
        before = Counter({(each["entity_type"], each["to_state"]): each["count"] for each in job.caused or []})
        job.caused = describe_caused(before + count_caused(results))
    job.finished_at = now() if portion is None or job.done >= job.total else None
    job.save(update_fields=["done", "refused", "approvals", "caused", "finished_at"])
    return job.finished_at is None


def _apply(job: BulkJob, ids: list[str]) -> list[Result]:
    try:
        action = action_of(job)
        actor = _get_actor(job, action.permission)
        action.check(actor)
        return action.apply(ids, actor=actor)
    except Refusal as refusal:
        return [Result(each, refusal=refusal) for each in ids]


def action_of(job: BulkJob) -> BulkAction:
    """Return the action of a job; the events of its transitions and overrides name the job."""
    request = Request(
        action=job.action,
        trigger=job.trigger if job.action == Name.TRANSITION else "",
        to_state=job.to_state,
        reason=job.reason,
        category=job.category,
        expires_at=job.expires_at,
        params=job.params,
    )
    action = resolve(registry.flow(job.entity_type), request)
    is_recorded = "metadata" in action.takes
    return replace(action, request=replace(action.request, metadata={"bulk_job": job.pk})) if is_recorded else action


def _get_actor(job: BulkJob, needed: str) -> Actor:
    """Return the actor with its current rights: a token that was revoked since changes nothing more."""
    if job.token is not None:
        if not job.token.is_good(now()):
            raise PermissionDenied(f"the token {job.token.name} is not valid any more", required="token")
        permission = registry.flow(job.entity_type).permission(needed)
        if not job.token.owner_holds(permission):
            raise PermissionDenied(f"the owner of {job.token.name} may not do this any more", required=permission)
        return job.token.as_kind(Kind(job.actor_kind))
    if job.user is None or not job.user.is_active:
        raise PermissionDenied(f"{job.actor} is not active any more", required="user")
    user: Any = job.user
    return Actor.operator(user, Channel(job.channel))


def _without_event(result: dict[str, Any]) -> dict[str, Any]:
    """Keep only the id of the event and of the request, which are stored elsewhere."""
    approval = {"approval": result["approval"]["id"]} if "approval" in result else {}
    return {**result, "event": result["event"] and result["event"]["event_id"], **approval}
