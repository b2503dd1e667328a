"""Calls for agents: plans, attempts, circuit breakers, checkpoints and the logs of agent jobs."""

from __future__ import annotations

from typing import Annotated, Any, cast

from django.http import HttpResponse

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
from .openapi.fields import ANY_OBJECT, ANY_VALUE, TIME, nullable, text
from .openapi.operation import AFTER, SIZE, operation
from .openapi.schemas import COUNT, FLAG, REASON, STRING, array, component, obj, page_of, ref
from .request import Request
from .request_body import As, Body, RequestBody, read_body
from .responses import json_response, outcome_response
from .views import ApiView

_HOOK = obj({"id": STRING, "secret": nullable(STRING)}, ["id"])
_PARTS = {"workstreams": COUNT, "tasks": COUNT, "gates": COUNT}
SUBMITTED = component("SubmittedRun", {"allOf": [ref("Run"), obj({**_PARTS, "webhook": _HOOK}, list(_PARTS))]})
COUNTED = component(
    "BreakerReport",
    obj({"counted": FLAG, "state": STRING, "failure_count": COUNT, "success_count": COUNT}),
    "The circuit breaker of a tool after a report.",
)
CHECKPOINT = component(
    "JobCheckpoint",
    obj({"job": STRING, "phase": STRING, "updated_at": TIME}),
    "A checkpoint of a pipeline job, without its content.",
)
ATTEMPT = component(
    "Attempt",
    obj(
        {
            "task": STRING,
            "attempt": COUNT,
            "worker": nullable(STRING),
            "started_at": TIME,
            "ended_at": nullable(TIME),
            "ended_by": nullable(STRING),
            "exit_code": {"type": ["integer", "null"]},
            "error": STRING,
            "output": STRING,
            "patch": nullable(STRING),
            "result": ANY_VALUE,
        }
    ),
    "An attempt at a task.",
)
_JOB_EVENT = {
    **dict.fromkeys(("job", "type", "actor"), STRING),
    "sequence": COUNT,
    "payload": ANY_OBJECT,
    **dict.fromkeys(("to_state", "journal_event"), nullable(STRING)),
    "at": TIME,
}
JOB_EVENT = component("JobEvent", obj(_JOB_EVENT), "An event in the log of an agent job.")
APPENDED = component(
    "AppendedEvent",
    obj({**_JOB_EVENT, "changed": FLAG, "state": STRING, "version": COUNT}),
    "An event of an agent job, and the job after it.",
)


class Submit(ApiView):
    """Create a run from a plan; returns the run and the numbers of its parts."""

    route = "runs/submit/"
    flow = Run.flow

    @operation(
        "Submit a plan in one transaction",
        {201: SUBMITTED},
        body=ref("Plan"),
        refusals=(409,),
        description="Workstreams, tasks and gates have the fields of their collections. Errors name the invalid part. "
        "`webhook` is a URL that gets one message at the end of the run; the response has its `secret` once. Agents "
        "may use the hosts in STATECORE_AGENT_WEBHOOK_HOSTS.",
        name="submit_plan",
        argument="plan",
    )
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

    route = "breakers/<str:tool>/acquire/"
    flow = CircuitBreaker.flow

    @operation(
        "Request permission to call a tool",
        {200: component("BreakerPermission", obj({"allowed": FLAG, "probe": FLAG}), "The permission to call a tool.")},
        body=Body,
        name="acquire_breaker",
    )
    def post(self, request: Request, tool: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), agent_of(request)
        return body.respond_once(
            actor, lambda work: breakers.acquire(_check_tool(tool), actor=actor, within=work).as_dict()
        )


class Report(ApiView):
    """Record whether a call of a tool succeeded; the circuit breaker counts failures."""

    route = "breakers/<str:tool>/report/"
    flow = CircuitBreaker.flow

    class Fields(Body):
        success: bool
        error: Annotated[str, As(text(10_000))] = ""

    @operation("Report the result of a tool call", {200: COUNTED}, body=Fields, name="report_breaker")
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

    route = "pipeline-jobs/<str:job_id>/checkpoints/<str:phase>/"
    flow = PipelineJob.flow

    @operation(
        "Read a stored checkpoint",
        {200: ANY_OBJECT},
        description="The headers Checkpoint-Job and Checkpoint-Updated-At name the job and the time it was stored.",
        name="get_checkpoint",
    )
    def get(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        entities.get_entity(PipelineJob, job_id)
        found = checkpoint.read(job_id, phase) if is_valid_id(phase) else None
        if found is None:
            raise NotFound(f"pipeline_job {job_id} has no checkpoint of {phase!r}")
        return _checkpoint_response(found)

    @operation(
        "Store a checkpoint",
        {200: ANY_OBJECT},
        body=ANY_OBJECT,
        refusals=(409,),
        name="store_checkpoint",
        argument="content",
    )
    def put(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        stored = job_checkpoints.store(job_id, phase, read_body(request), actor=agent_of(request))
        return _checkpoint_response(stored)

    @operation("Delete a checkpoint", {204: None}, name="delete_checkpoint")
    def delete(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        job_checkpoints.clear(job_id, phase, actor=agent_of(request))
        return HttpResponse(status=204)


class Checkpoints(ApiView):
    """The checkpoints of a pipeline job and its predecessors, without their contents."""

    route = "pipeline-jobs/<str:job_id>/checkpoints/"
    flow = PipelineJob.flow

    @operation(
        "List the checkpoints of a pipeline job, oldest first",
        {200: page_of(CHECKPOINT)},
        name="list_checkpoints",
        is_whole=True,
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        entities.get_entity(PipelineJob, job_id)
        results = [found.summarize() for found in checkpoint.list_all(job_id)]
        return json_response({"next": None, "previous": None, "results": results})


class Resume(ApiView):
    """Continue a pipeline job from its checkpoints: a crashed one in place, a failed one as a successor."""

    route = "pipeline-jobs/<str:job_id>/resume/"
    flow = PipelineJob.flow

    @operation(
        "Resume a pipeline job from its checkpoints",
        {
            200: component(
                "ResumedJob",
                obj({"entity": ref("PipelineJob"), "checkpoints": array(CHECKPOINT)}),
                "The job that continues, and its checkpoints.",
            )
        },
        body=Body,
        refusals=(409,),
        description="A job in a working stage that recovery has released, or that the caller holds, is resumed in "
        "place; a failed one by its holder, as a successor.",
        name="resume_pipeline_job",
    )
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

    route = "tasks/<str:task_id>/attempts/"
    flow = Task.flow

    @operation(
        "List the attempts at a task and at those it succeeds, oldest first",
        {200: page_of(ATTEMPT)},
        name="list_attempts",
    )
    def get(self, request: Request, task_id: str) -> HttpResponse:
        task = cast("Task", entities.get_entity(Task, task_id))
        return json_response({"next": None, "previous": None, "results": attempts.list_attempts(task)})


class JobEvents(ApiView):
    """The log of an agent job: list its events, or append one."""

    route = "agent-jobs/<str:job_id>/events/"
    flow = AgentJob.flow

    class Fields(Body):
        type: Annotated[str, As({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"})]
        payload: dict[str, Any] = {}
        reason: Annotated[str, As(REASON)] = ""
        expected_version: int | None = None

    @operation(
        "List the log of an agent job, oldest first",
        {200: page_of(JOB_EVENT)},
        params=[AFTER, SIZE],
        name="list_job_events",
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        entities.get_entity(AgentJob, job_id)
        return json_response(pages.paginate_log(request, agent_job_log.events_of(job_id)))

    @operation(
        "Append to the log of an agent job",
        {201: APPENDED},
        body=Fields,
        refusals=(409,),
        name="append_job_event",
        argument="event",
    )
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
