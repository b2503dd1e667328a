"""Tracing is off by default; with an endpoint each request is exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from statecore.request_context.traces import VARIABLE, NotInstalled, Traces
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
def test_each_request_is_exported_to_the_collector(
    collector: tuple[str, list[Any]], redis_server: str, tmp_path: Path
) -> None:
    address, heard = collector
    environ = {VARIABLE: address, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with sites.running(tmp_path, redis_server, **environ) as site:
        headers = {"Authorization": f"Bearer {sites.token('read', 'reader')}", "traceparent": f"00-{TRACE}-{PARENT}-01"}
        answer = httpx.get(f"{site.url}/api/v1/runs/r-nobody/", headers=headers)
        until(lambda: any(span.trace_id.hex() == TRACE for span in heard))
    (span,) = (span for span in heard if span.trace_id.hex() == TRACE)
    told = attributes(span)

    assert answer.status_code == 404
    assert (span.parent_span_id.hex(), span.name) == (PARENT, "GET api/v1/runs/<str:entity_id>/")
    assert told["http.response.status_code"] == 404
    assert (told["statecore.entity_type"], told["statecore.entity_id"]) == ("run", "r-nobody")
    assert (told["statecore.actor"], told["statecore.request_id"]) == ("ada", answer.headers["X-Request-ID"])


def test_without_an_endpoint_tracing_is_off() -> None:
    traces = Traces()

    assert traces.switch_on({}) is False
    assert traces.tracer is None


def test_an_endpoint_without_the_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(NotInstalled, match="extra `otel`"):
        Traces().switch_on({VARIABLE: "http://127.0.0.1:1"})
