"""Calls for operators: the rollback of a committed patch, pausing a run, and draining a worker."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse

from statecore import scheduling
from statecore.bulk import serialize_item
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
from statecore.transitions import Item
from statecore.transitions.unit_of_work import UnitOfWork

from . import entities
from .access import actor_of
from .openapi.fields import ANY_OBJECT, TIME, nullable
from .openapi.operation import operation, query
from .openapi.schemas import BULK_RESULT, FLAG, REASON, STRING, array, component, obj, ref
from .request import Request
from .request_body import As, Body, RequestBody, read_body
from .responses import json_response
from .views import ApiView

Reason = Annotated[str, As(REASON)]
COMPENSATION = component(
    "Compensation",
    obj(
        {
            "patch": STRING,
            "plan": nullable(ANY_OBJECT),
            "digest": nullable(STRING),
            "approved_by": nullable(STRING),
            "default": nullable(ANY_OBJECT),
            "steps": array(ANY_OBJECT),
        }
    ),
    "How a committed patch is rolled back.",
)
PAUSED_RUN = component(
    "PausedRun",
    obj({"changed": FLAG, "workstreams": array(BULK_RESULT), "entity": ANY_OBJECT}),
    "What pausing or resuming did to each workstream of a run.",
)


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
    route = "patches/<str:patch_id>/compensation/"
    flow, writes_need = PatchLedger.flow, (Scope.OPERATE,)

    @operation(
        "Preview the rollback of a committed patch", {200: COMPENSATION}, refusals=(409,), name="get_compensation"
    )
    def get(self, request: Request, patch_id: str) -> HttpResponse:
        return json_response(describe_compensation(patch_id))

    @operation(
        "Store the compensation plan of a patch, replacing an earlier one",
        {200: COMPENSATION},
        body=ANY_OBJECT,
        params=[query("dry_run", FLAG, "Validate the plan and store nothing.")],
        refusals=(409,),
        name="store_compensation",
        argument="plan",
    )
    def put(self, request: Request, patch_id: str) -> HttpResponse:
        entities.get_entity(PatchLedger, patch_id)
        dry_run = bool(self.params(request).get_flag("dry_run"))
        compensation.write_plan(patch_id, read_body(request), actor_of(request), dry_run=dry_run)
        return json_response(describe_compensation(patch_id))


class Approval(ApiView):
    route = "patches/<str:patch_id>/compensation/approve/"
    flow, writes_need, action = PatchLedger.flow, (Scope.OVERRIDE,), "override"

    class Fields(Body):
        digest: str

    @operation(
        "Approve the compensation plan with this digest",
        {200: COMPENSATION},
        body=Fields,
        refusals=(409,),
        name="approve_compensation",
    )
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

    route = "patches/<str:patch_id>/compensation/request/"
    flow, writes_need = PatchLedger.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason
        revert_commit: str = ""

    @operation(
        "Request the execution of the approved plan",
        {202: COMPENSATION},
        body=Fields,
        refusals=(409,),
        name="request_rollback",
    )
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

    route = "workers/<str:worker_id>/drain/"
    flow, writes_need = Worker.flow, (Scope.OPERATE,)

    @operation("Drain a worker", {200: ref("Worker")}, body=Body, refusals=(409,), name="drain_worker")
    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)

        def drain(work: UnitOfWork | None) -> dict[str, Any]:
            scheduling.drain_worker(worker_id, actor=actor, within=work)
            return entities.get_entity(Worker, worker_id).as_dict()

        return body.respond_once(actor, drain)


class PauseRun(ApiView):
    """Pause the workstreams of a run: none of their tasks is claimed until they are resumed or `until` has passed."""

    route = "runs/<str:run_id>/pause/"
    flow, writes_need = Workstream.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason
        until: Annotated[str, As(TIME)] | None = None

    @operation(
        "Pause the workstreams of a run",
        {200: PAUSED_RUN},
        body=Fields,
        refusals=(409,),
        description="Workstreams that are ready, executing or blocked are paused: none of their tasks is claimed. "
        "Running tasks continue. With `until` they resume automatically at that time.",
        name="pause_run",
    )
    def post(self, request: Request, run_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def pause(work: UnitOfWork | None) -> dict[str, Any]:
            fields = body.fields
            items = pauses.pause_run(run_id, actor=actor, reason=fields.reason, until=fields.until, within=work)
            return describe_paused(run_id, items)

        return body.respond_once(actor, pause)


class ResumeRun(ApiView):
    """Resume the paused workstreams of a run."""

    route = "runs/<str:run_id>/resume/"
    flow, writes_need = Workstream.flow, (Scope.OPERATE,)

    class Fields(Body):
        reason: Reason

    @operation(
        "Resume the paused workstreams of a run", {200: PAUSED_RUN}, body=Fields, refusals=(409,), name="resume_run"
    )
    def post(self, request: Request, run_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def resume(work: UnitOfWork | None) -> dict[str, Any]:
            items = pauses.resume_run(run_id, actor=actor, reason=body.fields.reason, within=work)
            return describe_paused(run_id, items)

        return body.respond_once(actor, resume)


def describe_paused(run_id: str, items: list[Item]) -> dict[str, Any]:
    results = [serialize_item(item) for item in items]
    return {
        "changed": any(item.outcome for item in items),
        "workstreams": results,
        "entity": entities.get_entity(Run, run_id).as_dict(),
    }
