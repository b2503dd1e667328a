"""An OpenTelemetry span for each request, in which transactions, statements and tasks record theirs (`kernel.spans`).

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set, which requires the packages of the extra `otel`; they are imported only
then. An incoming `traceparent` is continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from ..kernel import spans

VARIABLE, SERVICE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"
SPAN_ATTRIBUTE = "_statecore_span"


class NotInstalled(Exception):
    """Traces are configured, but their packages are not installed."""


class Traces:
    """Holds the tracer. Without one, begin() and end() do nothing."""

    def __init__(self) -> None:
        self.tracer: Any = None

    def switch_on(self, environ: Mapping[str, str]) -> bool:
        if not environ.get(VARIABLE):
            return False
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise NotInstalled(f"{VARIABLE} is set, but the packages of the extra `otel` are not installed.") from None
        provider = TracerProvider(resource=Resource.create({"service.name": environ.get(SERVICE) or "statecore"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = spans.tracer = provider.get_tracer("statecore")
        return True

    def begin(self, request: HttpRequest) -> str:
        """Starts a span and returns the id of its trace for the log; empty while traces are off."""
        if self.tracer is None:
            return ""
        from opentelemetry.context import attach
        from opentelemetry.trace import SpanKind, format_trace_id, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        headers = {name.lower(): value for name, value in request.headers.items()}
        parent = TraceContextTextMapPropagator().extract(headers)
        span = self.tracer.start_span(str(request.method), context=parent, kind=SpanKind.SERVER)
        setattr(request, SPAN_ATTRIBUTE, span)
        attach(set_span_in_context(span))
        return str(format_trace_id(span.get_span_context().trace_id))

    def end(self, request: HttpRequest, response: HttpResponse, attributes: Mapping[str, str]) -> None:
        """Names the span after the route, not the path: paths have too many values and may contain private data."""
        span = getattr(request, SPAN_ATTRIBUTE, None)
        if span is None:
            return
        route = request.resolver_match.route if request.resolver_match else ""
        span.update_name(f"{request.method} {route}".strip())
        span.set_attributes(
            {
                "http.request.method": str(request.method),
                "http.route": route,
                "http.response.status_code": response.status_code,
                **{f"statecore.{name}": value for name, value in attributes.items()},
            }
        )
        if response.status_code >= 500:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)
        span.end()
        from opentelemetry.context import Context, attach

        # The thread may do something else before its next request.
        attach(Context())


traces = Traces()
