"""One OpenTelemetry trace for each task of an agent, from its claim to its report, which the server continues.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set and the packages of the extra `otel` are installed. A program that uses
OpenTelemetry itself needs neither: its calls continue its current span.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .records import Task

VARIABLE, SERVICE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"


class TaskTrace:
    """The span of one turn of a slot; it is exported only if the turn had a task."""

    def __init__(self, span: Any = None) -> None:
        self.span, self.has_task = span, False

    def describe(self, task: Task) -> None:
        self.has_task = True
        if self.span is not None:
            self.span.update_name(f"task {task.id}")
            self.span.set_attributes({"statecore.task": task.id, "statecore.attempt": task.attempt or 0})


class Tracing:
    """Records the spans of an agent; without a tracer nothing."""

    def __init__(self, tracer: Any = None) -> None:
        self.tracer = tracer

    @property
    def is_on(self) -> bool:
        return self.tracer is not None

    @contextmanager
    def trace_task(self) -> Iterator[TaskTrace]:
        """Makes a span current, in which a slot claims a task, works on it and reports."""
        if self.tracer is None:
            yield TaskTrace()
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import use_span

        trace = TaskTrace(self.tracer.start_span("claim", context=Context()))
        with use_span(trace.span):
            yield trace
        if trace.has_task:
            trace.span.end()


def start(environ: Mapping[str, str] = os.environ) -> Tracing:
    """Returns what records the spans of an agent with these settings."""
    if not environ.get(VARIABLE):
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return Tracing()  # the variable may be meant for the command that the agent runs
    name = environ.get(SERVICE) or "statecore-agent"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider.get_tracer("statecore"))


def inject() -> dict[str, str]:
    """Returns the header that continues the current span at the server; none without OpenTelemetry or a span."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
