"""One trigger for many entities, over REST."""

from __future__ import annotations

from typing import Any

import structlog
from django.db import transaction
from django.http import HttpResponse
from django.urls import path, reverse
from kombu.exceptions import OperationalError as BrokerError

from statecore import bulk
from statecore.kernel import registry
from statecore.kernel.refusals import Invalid, NotFound
from statecore.kernel.ulid import is_valid_id
from statecore.records import BulkJob
from statecore.records.token import Token
from statecore.tasks import run_bulk_job

from . import idempotency
from .actors import firing
from .collections import Firing, OfMachine
from .filters import narrowed, words
from .permissions import require_sight
from .posted import Posted
from .request import Request
from .views import ApiView, answer

log = structlog.get_logger(__name__)


class Asked(Firing):
    ids: list[str] | None = None
    filter: dict[str, Any] | None = None


class BulkTransitions(OfMachine):
    def post(self, request: Request) -> HttpResponse:
        posted = Posted(request, Asked, takes_more=True)
        asked = posted.said
        if asked.expected_version is not None:
            raise Invalid({"expected_version": ["has no meaning for many entities."]})
        actor = firing(request, self.flow, asked.trigger)
        outcome = idempotency.once(posted.key, actor, lambda: self._fire(request, asked, posted.further, actor))
        told = outcome.as_dict()
        response = idempotency.reply(outcome, told, 202 if "job" in told else 200)
        if "job" in told:
            response["Location"] = told["url"]
        return response

    def _fire(self, request: Request, asked: Asked, params: dict[str, Any], actor: Any) -> dict[str, Any]:
        wanted = self._wanted(asked)
        given: dict[str, Any] = {"actor": actor, "params": params, "reason": asked.reason}
        if asked.dry_run or len(wanted) <= bulk.AT_ONCE:
            if len(wanted) > bulk.AT_ONCE:
                raise Invalid({"dry_run": [f"is for at most {bulk.AT_ONCE} entities."]})
            fire = {**given, "metadata": asked.metadata, "dry_run": asked.dry_run}
            return _summed(bulk.fire(self.model, wanted, asked.trigger, **fire))
        if asked.metadata:
            raise Invalid({"metadata": [f"is for at most {bulk.AT_ONCE} entities."]})
        token = request.auth if isinstance(request.auth, Token) else None
        user = None if token else request.user
        job = bulk.begin(self.model, wanted, asked.trigger, **given, user=user, token=token)
        transaction.on_commit(lambda: _hand_out(job))
        return {"job": job.as_dict(), "url": reverse("bulk-job", args=[job.pk])}

    def _wanted(self, asked: Asked) -> list[str]:
        if (asked.ids is None) == (asked.filter is None):
            raise Invalid({"ids": ["give either ids or a filter."]})
        if asked.ids is not None:
            return bulk.check(asked.ids)
        if not asked.filter:
            raise Invalid({"filter": ["must name at least one field."]})
        rows = narrowed(self.model.objects.all(), words(self.model, asked.filter)).order_by("pk")
        return bulk.check(rows.values_list("pk", flat=True)[: bulk.MOST + 1])


def _summed(results: list[dict[str, Any]]) -> dict[str, Any]:
    refused = sum(told["refusal"] is not None for told in results)
    return {"total": len(results), "refused": refused, "results": results}


def _hand_out(job: BulkJob) -> None:
    try:
        run_bulk_job.apply_async((job.pk,), retry=False)
    except BrokerError as error:  # the sweep finds it
        log.warning("bulk_job_waits", job=job.pk, error=str(error))


class Job(ApiView):
    def get(self, request: Request, job_id: str) -> HttpResponse:
        return answer(_found(request, job_id).as_dict())


class Results(ApiView):
    """What became of each, in the order they were given, a portion at a time; those that wait have none yet."""

    def get(self, request: Request, job_id: str) -> HttpResponse:
        portions = _found(request, job_id).portions.order_by("number")
        after = request.GET.get("after", "0")
        if request.GET.keys() - {"after"} or not (after.isascii() and after.isdigit() and len(after) <= 9):
            raise Invalid({"after": ["must be a whole number, and is the only parameter."]})
        portion, following = [*portions.filter(number__gt=int(after), results__isnull=False)[:2], None, None][:2]
        at = request.build_absolute_uri(f"{request.path}?after={portion.number}") if portion and following else None
        return answer({"next": at, "previous": None, "results": portion.results if portion else []})


def _found(request: Request, job_id: str) -> BulkJob:
    job = BulkJob.objects.filter(pk=job_id).first() if is_valid_id(job_id) else None
    if job is None:
        raise NotFound(f"there is no bulk job {job_id!r}")
    require_sight(request, registry.flow(job.entity_type))
    return job


urlpatterns = [
    path("bulk-jobs/<str:job_id>/", Job.as_view(), name="bulk-job"),
    path("bulk-jobs/<str:job_id>/results/", Results.as_view(), name="bulk-job-results"),
]
