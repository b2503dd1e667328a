"""The calls that agents make beside those of every machine."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import path

from statecore import agent_events, scheduling
from statecore.kernel.refusals import NotFound
from statecore.kernel.ulid import is_valid_id
from statecore.machines.agent_job import AgentJob
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.pipeline_job import PipelineJob
from statecore.machines.run import Run
from statecore.records import checkpoint
from statecore.scheduling import breakers

from . import bodies, entities, idempotency, sequences
from .actors import acting, acting_as_agent
from .claims import Claim
from .heartbeat import Heartbeat
from .posted import Posted
from .request import Request
from .views import ApiView, answer


class Submit(ApiView):
    """The run itself, and how much of a plan it is."""

    flow = Run.flow

    def post(self, request: Request) -> HttpResponse:
        asked = Posted(request, bodies.Body, takes_more=True)
        outcome = scheduling.submit(asked.further, actor=acting(request), request=asked.key)
        told = outcome.as_dict()
        counts = {name: told[name] for name in ("workstreams", "tasks", "gates")}
        return idempotency.reply(outcome, {**told["entity"], **counts}, 201)


class Acquire(ApiView):
    """Leave to call a tool, or 503 and when to ask again."""

    flow = CircuitBreaker.flow

    def post(self, request: Request, tool: str) -> HttpResponse:
        asked, actor = Posted(request, bodies.Body), acting_as_agent(request)
        return asked.once(actor, lambda: breakers.acquire(_tool(tool), actor=actor).as_dict())


class Report(ApiView):
    flow = CircuitBreaker.flow

    class Told(bodies.Body):
        success: bool
        error: str = ""

    def post(self, request: Request, tool: str) -> HttpResponse:
        asked, actor = Posted(request, self.Told), acting_as_agent(request)
        told = asked.said

        def note() -> dict[str, Any]:
            return breakers.report(_tool(tool), success=told.success, error=told.error, actor=actor).as_dict()

        return asked.once(actor, note)


def _tool(tool: str) -> str:
    if not is_valid_id(tool):
        raise NotFound(f"there is no tool {tool!r}")
    return tool


class Checkpoint(ApiView):
    """What was stored is read as it was stored; who stored it, and when, stands in the headers."""

    flow = PipelineJob.flow

    def get(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        entities.found(PipelineJob, job_id)
        found = checkpoint.read(job_id, phase) if is_valid_id(phase) else None
        if found is None:
            raise NotFound(f"pipeline_job {job_id} has no checkpoint of {phase!r}")
        return _stored(found)

    def put(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        entities.found(PipelineJob, job_id)
        return _stored(checkpoint.store(job_id, phase, bodies.read(request)))

    def delete(self, request: Request, job_id: str, phase: str) -> HttpResponse:
        entities.found(PipelineJob, job_id)
        if is_valid_id(phase):
            checkpoint.clear(job_id, phase)
        return HttpResponse(status=204)


def _stored(found: checkpoint.Checkpoint) -> HttpResponse:
    told = found.as_dict()
    return answer(told["payload"], Checkpoint_Job=told["job"], Checkpoint_Updated_At=told["updated_at"])


class JobEvents(ApiView):
    flow = AgentJob.flow

    class Appended(bodies.Body):
        type: str
        payload: dict[str, Any] = {}
        reason: str = ""
        expected_version: int | None = None

    def get(self, request: Request, job_id: str) -> HttpResponse:
        entities.found(AgentJob, job_id)
        return answer(sequences.page(request, agent_events.events_of(job_id)))

    def post(self, request: Request, job_id: str) -> HttpResponse:
        asked = Posted(request, self.Appended)
        given = asked.said
        outcome = agent_events.append(
            job_id,
            given.type,
            actor=acting_as_agent(request),
            payload=given.payload,
            reason=given.reason,
            expected_version=given.expected_version,
            request=asked.key,
        )
        return idempotency.reply(outcome, status=201)


urlpatterns = [
    path("runs/submit/", Submit.as_view(), name="runs-submit"),
    path("workers/<str:worker_id>/heartbeat/", Heartbeat.as_view(), name="worker-heartbeat"),
    path("workers/<str:worker_id>/claim/", Claim.as_view(), name="worker-claim"),
    path("breakers/<str:tool>/acquire/", Acquire.as_view(), name="breaker-acquire"),
    path("breakers/<str:tool>/report/", Report.as_view(), name="breaker-report"),
    path("pipeline-jobs/<str:job_id>/checkpoints/<str:phase>/", Checkpoint.as_view(), name="checkpoint"),
    path("agent-jobs/<str:job_id>/events/", JobEvents.as_view(), name="agent-job-events"),
]
