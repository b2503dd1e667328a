"""Bulk calls: one action for many entities, at once or as a background job that can be stopped."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from kombu.exceptions import OperationalError as BrokerError

from statecore.bulk import BulkAction, count_caused, jobs, resolve
from statecore.bulk import Request as BulkRequest
from statecore.bulk.results import Result, describe_caused
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid, NotFound
from statecore.records import BulkJob
from statecore.records.token import Scope, Token
from statecore.tasks import run_bulk_job
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_for_trigger, actor_of, require_permission, require_visible, visible_types
from .filters import apply_filters, normalize_filters
from .machine_view import Firing, MachineView
from .openapi.fields import ID, Schema
from .openapi.operation import AFTER, operation
from .openapi.schemas import (
    BULK_JOB,
    BULK_RESULT,
    CAUSED_COUNTS,
    COUNT,
    STRING,
    array,
    bulk_action_schema,
    bulk_schema,
    describe_filters,
    obj,
    page_of,
)
from .overrides import require_zone
from .request import Request
from .request_body import Body, RequestBody, respond_once
from .responses import json_response, outcome_response
from .views import ApiView

log = structlog.get_logger(__name__)


class BulkFields(Body):
    """The fields of a call beside those of the trigger."""

    action: str
    trigger: str = ""
    to_state: str = ""
    reason: str = ""
    category: str = ""
    expires_at: datetime | None = None
    metadata: dict[str, Any] = {}
    ids: list[str] | None = None
    filter: dict[str, Any] | None = None
    dry_run: bool = False


class BulkTransitionFields(Firing):
    ids: list[str] | None = None
    filter: dict[str, Any] | None = None


IDS: Schema = {**array(ID), "maxItems": 100_000}
SUMMARY = obj(
    {
        "total": COUNT, "refused": COUNT, "approvals": COUNT, "caused": CAUSED_COUNTS, "results": array(BULK_RESULT),
        "applicable": COUNT,
    },
    ["total", "refused", "approvals", "caused", "results"],
)  # fmt: skip
RESPONSES = {200: SUMMARY, 202: obj({"job": BULK_JOB, "url": STRING})}


def _describe_actions(view: Any) -> Schema:
    """One alternative for each action and trigger, with the ids and with a filter."""
    return bulk_action_schema(view.flow, {"ids": IDS}, {"filter": describe_filters(view.model)})


def _describe_triggers(view: Any) -> Schema:
    return bulk_schema(view.flow, {"ids": IDS}, {"filter": describe_filters(view.model)})


class Bulk(MachineView):
    call = "bulk/"
    fires = True
    Fields: type[Any] = BulkFields

    @operation(
        "Apply an action to many entities, each accepted or refused separately",
        RESPONSES,
        body=_describe_actions,
        refusals=(409,),
        description="Give either `ids` or a `filter` with the filters of the list. `cancel`, `pause`, `resume` and "
        "`drain` fire the trigger of the machine that does this. Guards, permissions and policies are those of the "
        "single call: an override that a policy protects has an `approval` in its result. `caused` counts the changes "
        "in other entities of machines that the caller may see. A dry run of a large selection tries the first "
        "entities to which the action applies, which are `applicable` in all. Without `dry_run`, a large selection "
        "becomes a background job; the response is 202 with its URL.",
        name="apply_to_many",
        is_written=True,
    )
    def post(self, request: Request) -> HttpResponse:
        body: RequestBody[Any] = RequestBody(request, self.Fields, takes_more=True)
        action = self.read_action(body)
        trigger = action.request.trigger
        actor = actor_for_trigger(request, self.flow, trigger) if trigger else actor_of(request)
        action.check(actor)
        outcome = respond_once(body.key, actor, lambda work: self._apply(request, body.fields, action, actor, work))
        result = _narrow(request, outcome.as_dict())
        response = outcome_response(outcome, result, 202 if "job" in result else 200)
        if "job" in result:
            response["Location"] = result["url"]
        return response

    def read_action(self, body: RequestBody[Any]) -> BulkAction:
        fields = body.fields
        require_zone(fields.expires_at)
        names = ("action", "trigger", "to_state", "reason", "category", "expires_at", "metadata")
        given = {name: getattr(fields, name) for name in names}
        return resolve(self.flow, BulkRequest(**given, params=body.extra))

    def _apply(
        self, request: Request, fields: Any, action: BulkAction, actor: Actor, within: UnitOfWork | None
    ) -> dict[str, Any]:
        ids = self._select(fields)
        if len(ids) <= action.at_once:
            return self.summarize(ids, action.apply(ids, actor=actor, dry_run=fields.dry_run, within=within))
        if fields.dry_run:
            return self.preview(ids, action, actor)
        if fields.metadata:
            raise Invalid({"metadata": [f"is limited to {action.at_once} entities."]})
        token = request.auth if isinstance(request.auth, Token) else None
        job = jobs.begin(action, ids, actor=actor, user=None if token else request.user, token=token)
        transaction.on_commit(lambda: _enqueue(job))
        return {"job": job.as_dict(), "url": reverse("bulk-job", args=[job.pk])}

    def preview(self, ids: list[str], action: BulkAction, actor: Actor) -> dict[str, Any]:
        """A dry run of a large selection tries the first entities to which the action applies."""
        found = jobs.preview(action, ids, actor)
        return {**self.summarize(ids, found.results), "applicable": found.applicable}

    def summarize(self, ids: list[str], results: list[Result]) -> dict[str, Any]:
        return {
            "total": len(ids),
            "refused": sum(result.refusal is not None for result in results),
            "approvals": sum(result.approval is not None for result in results),
            "caused": describe_caused(count_caused(results)),
            "results": [result.as_dict() for result in results],
        }

    def _select(self, fields: Any) -> list[str]:
        if (fields.ids is None) == (fields.filter is None):
            raise Invalid({"ids": ["give either ids or a filter, not both."]})
        if fields.ids is not None:
            return jobs.check_ids(fields.ids)
        if not fields.filter:
            raise Invalid({"filter": ["must name at least one field."]})
        rows = apply_filters(self.model.objects.all(), normalize_filters(self.model, fields.filter)).order_by("pk")
        return jobs.check_ids(rows.values_list("pk", flat=True)[: jobs.MOST + 1])


class BulkTransitions(Bulk):
    """The same for triggers only, with a dry run of every entity."""

    call = "bulk-transitions/"
    Fields = BulkTransitionFields

    @operation(
        "Fire a trigger for many entities, each applied or refused separately",
        RESPONSES,
        body=_describe_triggers,
        refusals=(409,),
        description="Give either `ids` or a `filter` with the filters of the list. A large selection becomes a "
        "background job; the response is 202 with its URL. `bulk/` takes every action.",
        name="fire_for_many",
        is_written=True,
    )
    def post(self, request: Request) -> HttpResponse:
        return super().post(request)

    def read_action(self, body: RequestBody[Any]) -> BulkAction:
        fields = body.fields
        if fields.expected_version is not None:
            raise Invalid({"expected_version": ["is not supported for bulk transitions."]})
        given = BulkRequest(trigger=fields.trigger, reason=fields.reason, metadata=fields.metadata, params=body.extra)
        return resolve(self.flow, given)

    def preview(self, ids: list[str], action: BulkAction, actor: Actor) -> dict[str, Any]:
        raise Invalid({"dry_run": [f"is limited to {action.at_once} entities."]})


def _narrow(request: Request, shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out the consequences in machines that the caller may not see, as the console does."""
    if not shown.get("caused"):
        return shown
    visible = visible_types(request)
    return {**shown, "caused": [each for each in shown["caused"] if each["entity_type"] in visible]}


def _enqueue(job: BulkJob) -> None:
    try:
        run_bulk_job.apply_async((job.pk,), retry=False)
    except BrokerError as error:  # a sweep starts the job later
        log.warning("bulk_job_not_enqueued", job=job.pk, error=str(error))


class Job(ApiView):
    route = "bulk-jobs/<str:job_id>/"
    name = "bulk-job"

    @operation("Read the progress of a bulk job", {200: BULK_JOB}, name="get_bulk_job")
    def get(self, request: Request, job_id: str) -> HttpResponse:
        return json_response(_narrow(request, _get_job(request, job_id).as_dict()))


class Stop(ApiView):
    """End a job after the portion that is running; what has been done stays."""

    route = "bulk-jobs/<str:job_id>/stop/"
    writes_need = (Scope.OPERATE,)

    @operation("Stop a bulk job", {200: BULK_JOB}, body=Body, refusals=(409,), name="stop_bulk_job")
    def post(self, request: Request, job_id: str) -> HttpResponse:
        body, job, actor = RequestBody(request, Body), _get_job(request, job_id), actor_of(request)
        require_permission(request, registry.flow(job.entity_type).permission("operate"))

        def stop(work: UnitOfWork | None) -> dict[str, Any]:
            jobs.stop(job, actor)
            return _narrow(request, BulkJob.objects.get(pk=job.pk).as_dict())

        return body.respond_once(actor, stop)


class Results(ApiView):
    """The results so far, in the order of the ids. A page is one portion, which the job processed together."""

    route = "bulk-jobs/<str:job_id>/results/"

    @operation(
        "List the results of a bulk job by entity",
        {200: page_of(BULK_RESULT)},
        params=[AFTER],
        name="list_bulk_results",
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        portions = _get_job(request, job_id).portions.order_by("number")
        after = request.GET.get("after", "0")
        if request.GET.keys() - {"after"} or not (after.isascii() and after.isdigit() and len(after) <= 9):
            raise Invalid({"after": ["must be a whole number and the only parameter."]})
        portion, following = [*portions.filter(number__gt=int(after), results__isnull=False)[:2], None, None][:2]
        url = request.build_absolute_uri(f"{request.path}?after={portion.number}") if portion and following else None
        return json_response({"next": url, "previous": None, "results": portion.results if portion else []})


def _get_job(request: Request, job_id: str) -> BulkJob:
    job = BulkJob.objects.filter(pk=job_id).first() if is_valid_id(job_id) else None
    if job is None:
        raise NotFound(f"there is no bulk job {job_id!r}")
    require_visible(request, registry.flow(job.entity_type))
    return job
