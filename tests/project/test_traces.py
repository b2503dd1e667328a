"""Tracing is off by default; with an endpoint each request is exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import current_app
from celery.signals import before_task_publish
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.contextvars import bound_contextvars, get_contextvars

from statecore.kernel import spans
from statecore.machines.task import Task
from statecore.project import celery
from statecore.request_context.traces import VARIABLE, NotInstalled, Traces
from tests.agent.process import AgentProcess, submit
from tests.support import site as sites
from tests.support.collector import collecting
from tests.support.waiting import until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    with collecting() as found:
        yield found


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.mark.django_db(transaction=True)
def test_requests_and_the_work_of_agents_are_exported_to_the_collector(
    collector: tuple[str, list[Any]], redis_server: str, tmp_path: Path
) -> None:
    address, heard = collector
    environ = {VARIABLE: address, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with sites.running(tmp_path, redis_server, **environ) as site:
        headers = {"Authorization": f"Bearer {sites.token('read', 'reader')}", "traceparent": f"00-{TRACE}-{PARENT}-01"}
        answer = httpx.get(f"{site.url}/api/v1/runs/r-nobody/", headers=headers)
        until(lambda: any(span.trace_id.hex() == TRACE and span.name.startswith("GET") for span in heard))
        check_trace_of_an_agent(site.url, heard, tmp_path, environ)
    (span,) = (span for span in heard if span.trace_id.hex() == TRACE and span.name.startswith("GET"))
    told = attributes(span)

    assert answer.status_code == 404
    assert (span.parent_span_id.hex(), span.name) == (PARENT, "GET api/v1/runs/<str:entity_id>/")
    assert told["http.response.status_code"] == 404
    assert (told["statecore.entity_type"], told["statecore.entity_id"]) == ("run", "r-nobody")
    assert (told["statecore.actor"], told["statecore.request_id"]) == ("ada", answer.headers["X-Request-ID"])


def check_trace_of_an_agent(url: str, heard: list[Any], folder: Path, environ: dict[str, str]) -> None:
    """One trace has the agent's span, both calls, the transactions and statements, and reaches the command."""
    submit({"id": "t1"}, {"id": "t2"})
    token = sites.token("agent")
    agent = AgentProcess(folder, url, token, "--", "/bin/sh", "-c", "echo $TRACEPARENT", **environ)
    try:
        until(lambda: {"task t1", "task t2"} <= {span.name for span in heard}, 60)
    finally:
        agent.kill()
    ids = {span.name: span.trace_id for span in heard}
    assert ids["task t1"] != ids["task t2"]
    for name in ("t1", "t2"):
        trace = [span for span in heard if span.trace_id == ids[f"task {name}"]]
        routes = {span.name.rpartition("/<str:entity_id>")[2] for span in trace if span.name.startswith("POST")}
        assert len([route for route in routes if "claim" in route or "transition" in route]) == 2, routes
        (done,) = [span for span in trace if f"task {name} execution_completed" in str(span.attributes)]
        assert done.name == "transition service"
        assert any(span.name.startswith("SQL ") for span in trace)
        assert trace[0].trace_id.hex() in Task.objects.get(pk=name).output


def test_a_task_that_a_request_queues_is_part_of_its_trace_and_log(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", provider.get_tracer("test"))
    headers: dict[str, Any] = {}
    with spans.tracer.start_as_current_span("request"), bound_contextvars(request_id="r-1"):
        before_task_publish.send(sender="run_bulk_job", headers=headers)

    task = current_app.tasks["statecore.tasks.run_bulk_job"]
    task.push_request(**headers)  # as a worker does with the headers of a message
    try:
        celery.begin_task(task=task, task_id="1")
        assert get_contextvars()["request_id"] == "r-1"
        celery.end_task(task=task)
    finally:
        task.pop_request()
    queued, request = sorted(exporter.get_finished_spans(), key=lambda span: span.name, reverse=True)
    assert (queued.name, request.name) == ("task statecore.tasks.run_bulk_job", "request")
    assert queued.parent.span_id == request.context.span_id
    assert get_contextvars() == {}


def test_without_an_endpoint_tracing_is_off() -> None:
    traces = Traces()

    assert traces.switch_on({}) is False
    assert traces.tracer is None


def test_an_endpoint_without_the_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(NotInstalled, match="extra `otel`"):
        Traces().switch_on({VARIABLE: "http://127.0.0.1:1"})
