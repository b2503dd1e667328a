"""A span for each request, for whoever collects traces by OpenTelemetry.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set; then the packages of the extra `otel` must be there. Until then nothing
of them is loaded. What a caller sends as `traceparent` is gone on with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

VARIABLE, SERVICE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"
KEPT_AT = "_statecore_span"


class NotInstalled(Exception):
    """Somebody wants traces, and the packages for them are not there."""


class Traces:
    """Holds the tracer, or nothing: then every call is none."""

    def __init__(self) -> None:
        self.tracer: Any = None

    @property
    def are_on(self) -> bool:
        return self.tracer is not None

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
        self.tracer = provider.get_tracer("statecore")
        return True

    def begin(self, request: HttpRequest) -> str:
        """The id of the trace, for the lines of the log; empty while traces are off."""
        if self.tracer is None:
            return ""
        from opentelemetry.trace import SpanKind, format_trace_id
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        given = {name.lower(): value for name, value in request.headers.items()}
        before = TraceContextTextMapPropagator().extract(given)
        span = self.tracer.start_span(str(request.method), context=before, kind=SpanKind.SERVER)
        setattr(request, KEPT_AT, span)
        return str(format_trace_id(span.get_span_context().trace_id))

    def end(self, request: HttpRequest, response: HttpResponse, told: Mapping[str, str]) -> None:
        """Named by its route and never by its address: addresses are many, and may hold what is nobody's business."""
        span = getattr(request, KEPT_AT, None)
        if span is None:
            return
        route = request.resolver_match.route if request.resolver_match else ""
        span.update_name(f"{request.method} {route}".strip())
        span.set_attributes(
            {
                "http.request.method": str(request.method),
                "http.route": route,
                "http.response.status_code": response.status_code,
                **{f"statecore.{name}": value for name, value in told.items()},
            }
        )
        if response.status_code >= 500:
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)
        span.end()


traces = Traces()
