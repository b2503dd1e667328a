"""Bulk transitions: one trigger for many entities, at once or as a background job."""

from __future__ import annotations

from typing import Any

import structlog
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from kombu.exceptions import OperationalError as BrokerError

from statecore.kernel import registry
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid, NotFound
from statecore.records import BulkJob
from statecore.records.token import Token
from statecore.tasks import run_bulk_job
from statecore.transitions import bulk_jobs
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_for_trigger, require_visible
from .collections import Firing, MachineView
from .filters import apply_filters, normalize_filters
from .openapi.fields import ID, Schema
from .openapi.operation import AFTER, operation
from .openapi.schemas import BULK_JOB, BULK_RESULT, COUNT, STRING, array, bulk_schema, describe_filters, obj, page_of
from .request import Request
from .request_body import RequestBody, respond_once
from .responses import json_response, outcome_response
from .views import ApiView

log = structlog.get_logger(__name__)


class BulkFields(Firing):
    ids: list[str] | None = None
    filter: dict[str, Any] | None = None


SUMMARY = obj({"total": COUNT, "refused": COUNT, "results": array(BULK_RESULT)})
IDS: Schema = {**array(ID), "maxItems": 100_000}


def _body(view: Any) -> Schema:
    """One alternative for each trigger, with the ids and with a filter."""
    return bulk_schema(view.flow, {"ids": IDS}, {"filter": describe_filters(view.model)})


class BulkTransitions(MachineView):
    call = "bulk-transitions/"
    fires = True

    @operation(
        "Fire a trigger for many entities, each applied or refused separately",
        {200: SUMMARY, 202: obj({"job": BULK_JOB, "url": STRING})},
        body=_body,
        refusals=(409,),
        description="Give either `ids` or a `filter` with the filters of the list. A large selection becomes a "
        "background job; the response is 202 with its URL.",
    )
    def post(self, request: Request) -> HttpResponse:
        body = RequestBody(request, BulkFields, takes_more=True)
        fields = body.fields
        if fields.expected_version is not None:
            raise Invalid({"expected_version": ["is not supported for bulk transitions."]})
        actor = actor_for_trigger(request, self.flow, fields.trigger)
        outcome = respond_once(body.key, actor, lambda work: self._fire(request, fields, body.extra, actor, work))
        result = outcome.as_dict()
        response = outcome_response(outcome, result, 202 if "job" in result else 200)
        if "job" in result:
            response["Location"] = result["url"]
        return response

    def _fire(
        self, request: Request, fields: BulkFields, params: dict[str, Any], actor: Any, within: UnitOfWork | None
    ) -> dict[str, Any]:
        ids = self._select(fields)
        given: dict[str, Any] = {"actor": actor, "params": params, "reason": fields.reason}
        if fields.dry_run or len(ids) <= bulk_jobs.AT_ONCE:
            if len(ids) > bulk_jobs.AT_ONCE:
                raise Invalid({"dry_run": [f"is limited to {bulk_jobs.AT_ONCE} entities."]})
            fire = {**given, "metadata": fields.metadata, "dry_run": fields.dry_run, "within": within}
            return _summarize(bulk_jobs.fire(self.model, ids, fields.trigger, **fire))
        if fields.metadata:
            raise Invalid({"metadata": [f"is limited to {bulk_jobs.AT_ONCE} entities."]})
        token = request.auth if isinstance(request.auth, Token) else None
        user = None if token else request.user
        job = bulk_jobs.begin(self.model, ids, fields.trigger, **given, user=user, token=token)
        transaction.on_commit(lambda: _enqueue(job))
        return {"job": job.as_dict(), "url": reverse("bulk-job", args=[job.pk])}

    def _select(self, fields: BulkFields) -> list[str]:
        if (fields.ids is None) == (fields.filter is None):
            raise Invalid({"ids": ["give either ids or a filter, not both."]})
        if fields.ids is not None:
            return bulk_jobs.check(fields.ids)
        if not fields.filter:
            raise Invalid({"filter": ["must name at least one field."]})
        rows = apply_filters(self.model.objects.all(), normalize_filters(self.model, fields.filter)).order_by("pk")
        return bulk_jobs.check(rows.values_list("pk", flat=True)[: bulk_jobs.MOST + 1])


def _summarize(results: list[dict[str, Any]]) -> dict[str, Any]:
    refused = sum(result["refusal"] is not None for result in results)
    return {"total": len(results), "refused": refused, "results": results}


def _enqueue(job: BulkJob) -> None:
    try:
        run_bulk_job.apply_async((job.pk,), retry=False)
    except BrokerError as error:  # a sweep starts the job later
        log.warning("bulk_job_not_enqueued", job=job.pk, error=str(error))


class Job(ApiView):
    route = "bulk-jobs/<str:job_id>/"
    name = "bulk-job"

    @operation("Read the progress of a bulk job", {200: BULK_JOB})
    def get(self, request: Request, job_id: str) -> HttpResponse:
        return json_response(_get_job(request, job_id).as_dict())


class Results(ApiView):
    """The results so far, in the order of the ids. A page is one portion, which the job processed together."""

    route = "bulk-jobs/<str:job_id>/results/"

    @operation("List the results of a bulk job by entity", {200: page_of(BULK_RESULT)}, params=[AFTER])
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
