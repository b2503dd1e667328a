"""Calls for agents: plans, attempts, circuit breakers, checkpoints and the logs of agent jobs."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpResponse
from django.urls import path

from statecore import scheduling
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import NotFound
from statecore.machines.agent_job import AgentJob
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.pipeline_job import PipelineJob
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.read_models import attempts
from statecore.records import checkpoint
from statecore.scheduling import agent_job_log, breakers, job_checkpoints, job_resumption
from statecore.scheduling.plans import Submitted
from statecore.transitions.unit_of_work import UnitOfWork

from . import entities, pages
from .access import actor_of, agent_of
from .claims import Claim
from .heartbeat import Heartbeat
from .request import Request
from .request_body import Body, RequestBody, read_body
from .responses import json_response, outcome_response
from .views import ApiView


class Submit(ApiView):
    """Create a run from a plan; returns the run and the numbers of its parts."""

    flow = Run.flow

    def post(self, request: Request) -> HttpResponse:
        body = RequestBody(request, Body, takes_more=True)
        outcome = scheduling.submit_plan(body.extra, actor=actor_of(request), request=body.key)
        submitted = outcome.as_dict()
        more: dict[str, Any] = {
            name: submitted[name] for name in ("workstreams", "tasks", "gates", "webhook") if name in submitted
        }
        if isinstance(outcome, Submitted) and outcome.webhook_secret is not None:
            more["webhook"] = {**more["webhook"], "secret": outcome.webhook_secret}
        return outcome_response(outcome, {**submitted["entity"], **more}, 201)


class Acquire(ApiView):
    """Permit a call of a tool, or refuse with 503 and `Retry-After` while its circuit breaker is open."""

    flow = CircuitBreaker.flow

    def post(self, request: Request, tool: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), agent_of(request)
        return body.respond_once(
            actor, lambda work: breakers.acquire(_check_tool(tool), actor=actor, within=work).as_dict()
        )


class Report(ApiView):
    """Record whether a call of a tool succeeded; the circuit breaker counts failures."""

    flow = CircuitBreaker.flow

    class Fields(Body):
        success: bool
        error: str = ""

    def post(self, request: Request, tool: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), agent_of(request)
        fields = body.fields

        def report(work: UnitOfWork | None) -> dict[str, Any]:
            success, error = fields.success, fields.error
            return breakers.report(_check_tool(tool), success=success, error=error, actor=actor, within=work).as_dict()

        return body.respond_once(actor, report)


def _check_tool(tool: str) -> str:
    if not is_valid_id(tool):
        raise NotFound(f"there is no tool {tool!r}")
    return tool


class Checkpoint(ApiView):
    """A checkpoint of a pipeline job: the body is the stored JSON, the headers name the job and the time."""

    flow = PipelineJob.flow

    def get(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        entities.get_entity(PipelineJob, job_id)
        found = checkpoint.read(job_id, phase) if is_valid_id(phase) else None
        if found is None:
            raise NotFound(f"pipeline_job {job_id} has no checkpoint of {phase!r}")
        return _checkpoint_response(found)

    def put(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        stored = job_checkpoints.store(job_id, phase, read_body(request), actor=agent_of(request))
        return _checkpoint_response(stored)

    def delete(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        job_checkpoints.clear(job_id, phase, actor=agent_of(request))
        return HttpResponse(status=204)


class Checkpoints(ApiView):
    """The checkpoints of a pipeline job and its predecessors, without their contents."""

    flow = PipelineJob.flow

    def get(self, request: Request, job_id: str) -> HttpResponse:
        entities.get_entity(PipelineJob, job_id)
        results = [found.summarize() for found in checkpoint.list_all(job_id)]
        return json_response({"next": None, "previous": None, "results": results})


class Resume(ApiView):
    """Continue a pipeline job from its checkpoints: a crashed one in place, a failed one as a successor."""

    flow = PipelineJob.flow

    def post(self, request: Request, job_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), agent_of(request)

        def resume(work: UnitOfWork | None) -> dict[str, Any]:
            job = job_resumption.resume(job_id, actor=actor, within=work)
            found = [each.summarize() for each in checkpoint.list_all(job.pk)]
            return {"entity": job.as_dict(), "checkpoints": found}

        return body.respond_once(actor, resume)


def _checkpoint_response(found: checkpoint.Checkpoint) -> HttpResponse:
    fields = found.as_dict()
    return json_response(fields["payload"], Checkpoint_Job=fields["job"], Checkpoint_Updated_At=fields["updated_at"])


class Attempts(ApiView):
    """The attempts at a task and at those it succeeds, oldest first."""

    flow = Task.flow

    def get(self, request: Request, task_id: str) -> HttpResponse:
        task = cast("Task", entities.get_entity(Task, task_id))
        return json_response({"next": None, "previous": None, "results": attempts.list_attempts(task)})


class JobEvents(ApiView):
    """The log of an agent job: list its events, or append one."""

    flow = AgentJob.flow

    class Fields(Body):
        type: str
        payload: dict[str, Any] = {}
        reason: str = ""
        expected_version: int | None = None

    def get(self, request: Request, job_id: str) -> HttpResponse:
        entities.get_entity(AgentJob, job_id)
        return json_response(pages.paginate_log(request, agent_job_log.events_of(job_id)))

    def post(self, request: Request, job_id: str) -> HttpResponse:
        body = RequestBody(request, self.Fields)
        fields = body.fields
        outcome = agent_job_log.append_event(
            job_id,
            fields.type,
            actor=agent_of(request),
            payload=fields.payload,
            reason=fields.reason,
            expected_version=fields.expected_version,
            request=body.key,
        )
        return outcome_response(outcome, status=201)


urlpatterns = [
    path("runs/submit/", Submit.as_view(), name="runs-submit"),
    path("workers/<str:worker_id>/heartbeat/", Heartbeat.as_view(), name="worker-heartbeat"),
    path("workers/<str:worker_id>/claim/", Claim.as_view(), name="worker-claim"),
    path("breakers/<str:tool>/acquire/", Acquire.as_view(), name="breaker-acquire"),
    path("breakers/<str:tool>/report/", Report.as_view(), name="breaker-report"),
    path("tasks/<str:task_id>/attempts/", Attempts.as_view(), name="task-attempts"),
    path("pipeline-jobs/<str:job_id>/checkpoints/", Checkpoints.as_view(), name="checkpoints"),
    path("pipeline-jobs/<str:job_id>/resume/", Resume.as_view(), name="pipeline-job-resume"),
    path("pipeline-jobs/<str:job_id>/checkpoints/<str:phase>/", Checkpoint.as_view(), name="checkpoint"),
    path("agent-jobs/<str:job_id>/events/", JobEvents.as_view(), name="agent-job-events"),
]
