"""Calls for operators: the rollback of a committed patch, pausing a run, and draining a worker."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import path

from statecore import scheduling
from statecore.executors import compensation
from statecore.executors.compensation_plan import digest
from statecore.executors.rollback import steps_of
from statecore.machines.patch_ledger import PatchLedger, State
from statecore.machines.run import Run
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records.compensation_step import Action
from statecore.records.token import Scope
from statecore.scheduling import pauses
from statecore.transitions import Item, bulk_jobs
from statecore.transitions.unit_of_work import UnitOfWork

from . import entities
from .access import actor_of
from .query_params import QueryParams
from .request import Request
from .request_body import Body, RequestBody, read_body
from .responses import json_response
from .views import ApiView


def describe_compensation(patch_id: str) -> dict[str, Any]:
    """Return the plan for rolling back a patch, its approval and the steps done so far."""
    patch: Any = entities.get_entity(PatchLedger, patch_id)
    plan = patch.compensation_plan or None
    return {
        "patch": patch.pk,
        "plan": plan,
        "digest": digest(plan) if plan else None,
        "approved_by": patch.compensation_approved_by or None,
        "default": compensation.default_plan(patch) if patch.state == State.COMMITTED else None,
        "steps": [{**step.as_dict(), "failed": step.action == Action.FAILED} for step in steps_of(patch.pk)],
    }


class Compensation(ApiView):
    flow, writes_need = PatchLedger.flow, (Scope.OPERATE,)

    def get(self, request: Request, patch_id: str) -> HttpResponse:
        return json_response(describe_compensation(patch_id))

    def put(self, request: Request, patch_id: str) -> HttpResponse:
        """Store a plan, replacing the previous one; with `dry_run` only validate it."""
        entities.get_entity(PatchLedger, patch_id)
        dry_run = bool(QueryParams(dict(request.GET.lists()), "dry_run").get_flag("dry_run"))
        compensation.write_plan(patch_id, read_body(request), actor_of(request), dry_run=dry_run)
        return json_response(describe_compensation(patch_id))


class Approval(ApiView):
    flow, writes_need, action = PatchLedger.flow, (Scope.OVERRIDE,), "override"

    class Fields(Body):
        digest: str

    def post(self, request: Request, patch_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        entities.get_entity(PatchLedger, patch_id)

        def approve(work: UnitOfWork | None) -> dict[str, Any]:
            compensation.approve(patch_id, actor, digest=body.fields.digest, within=work)
            return describe_compensation(patch_id)

        return body.respond_once(actor, approve)


class Rollback(ApiView):
    """Request the execution of the approved plan; the executor runs it and records each step.

    `revert_commit` names the commit by which a person reverted the patch: required if the plan does not revert it, and
    without executors, where it is verified and the patch rolled back at once.
    """

    flow, writes_need = PatchLedger.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: str
        revert_commit: str = ""

    def post(self, request: Request, patch_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        entities.get_entity(PatchLedger, patch_id)

        def request_rollback(work: UnitOfWork | None) -> dict[str, Any]:
            fields = body.fields
            compensation.request(patch_id, actor, fields.reason, revert_commit=fields.revert_commit, within=work)
            return describe_compensation(patch_id)

        return body.respond_once(actor, request_rollback, 202)


class Drain(ApiView):
    """Assign no new tasks to a worker. Its agent is notified at the next heartbeat, and leaves after its last task."""

    flow, writes_need = Worker.flow, (Scope.OPERATE,)

    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)

        def drain(work: UnitOfWork | None) -> dict[str, Any]:
            scheduling.drain_worker(worker_id, actor=actor, within=work)
            return entities.get_entity(Worker, worker_id).as_dict()

        return body.respond_once(actor, drain)


class PauseRun(ApiView):
    """Pause the workstreams of a run: none of their tasks is claimed until they are resumed or `until` has passed."""

    flow, writes_need = Workstream.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: str
        until: str | None = None

    def post(self, request: Request, run_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def pause(work: UnitOfWork | None) -> dict[str, Any]:
            fields = body.fields
            items = pauses.pause_run(run_id, actor=actor, reason=fields.reason, until=fields.until, within=work)
            return describe_paused(run_id, items)

        return body.respond_once(actor, pause)


class ResumeRun(ApiView):
    """Resume the paused workstreams of a run."""

    flow, writes_need = Workstream.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: str

    def post(self, request: Request, run_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def resume(work: UnitOfWork | None) -> dict[str, Any]:
            items = pauses.resume_run(run_id, actor=actor, reason=body.fields.reason, within=work)
            return describe_paused(run_id, items)

        return body.respond_once(actor, resume)


def describe_paused(run_id: str, items: list[Item]) -> dict[str, Any]:
    results = [bulk_jobs.serialize_item(item) for item in items]
    return {
        "changed": any(item.outcome for item in items),
        "workstreams": results,
        "entity": entities.get_entity(Run, run_id).as_dict(),
    }


urlpatterns = [
    path("patches/<str:patch_id>/compensation/", Compensation.as_view(), name="compensation"),
    path("patches/<str:patch_id>/compensation/approve/", Approval.as_view(), name="compensation-approve"),
    path("patches/<str:patch_id>/compensation/request/", Rollback.as_view(), name="compensation-request"),
    path("runs/<str:run_id>/pause/", PauseRun.as_view(), name="run-pause"),
    path("runs/<str:run_id>/resume/", ResumeRun.as_view(), name="run-resume"),
    path("workers/<str:worker_id>/drain/", Drain.as_view(), name="worker-drain"),
]
