"""Spans of OpenTelemetry for every layer. `request_context.traces` sets the tracer; without one nothing is recorded.

OpenTelemetry is not imported here: it is an extra. Code that runs for each statement checks `tracer` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

MAX_LISTED = 20

tracer: Any = None


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """Records a span within the current one; none without a current one, so that sweeps make no traces."""
    if tracer is None or not _has_parent():
        yield
        return
    with tracer.start_as_current_span(name, attributes=attributes):
        yield


def run(name: str, function: Callable[[], T]) -> T:
    with span(name):
        return function()


def list_on_current(name: str, words: Iterable[str]) -> None:
    """Adds a list to the current span, cut after its first words."""
    from opentelemetry import trace

    listed = [word for word, _ in zip(words, range(MAX_LISTED), strict=False)]
    trace.get_current_span().set_attribute(name, listed)


def inject() -> dict[str, str]:
    """Returns the headers that continue the current trace elsewhere; none without one."""
    if tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


@contextmanager
def continued(headers: Mapping[str, str], name: str) -> Iterator[None]:
    """Records a span in the trace that headers name; none if they name no trace."""
    if tracer is None or "traceparent" not in headers:
        yield
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    with tracer.start_as_current_span(name, context=TraceContextTextMapPropagator().extract(headers)):
        yield


def _has_parent() -> bool:
    from opentelemetry import trace

    return bool(trace.get_current_span().get_span_context().is_valid)
