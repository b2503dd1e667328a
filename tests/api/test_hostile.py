"""Malformed input gets a problem response that explains the error, never a 500."""

import base64
import json

import pytest
from django.test import Client

from statecore.kernel import registry
from tests.api.callers import Caller, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db

DEEP = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
BODIES = {
    "not json": b"{",
    "not utf-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "deep": DEEP,
    "NaN": b'{"priority": NaN}',
    "a lone surrogate": b'{"id": "\\ud800"}',
    "a NUL": b'{"reason": "a\\u0000b"}',
    "a huge number": b'{"priority": ' + b"9" * 4000 + b"}",
    "a huge float": b'{"priority": 1e999}',
    "an unknown field": b'{"nonsense": 1}',
    "a strange name": b'{"": 1, "a b": 2, "__class__": 3}',
    "a name with NUL": b'{"a\\u0000": 1}',
    "deep metadata": b'{"metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}",
    "metadata with NUL": b'{"metadata": {"a\\u0000": "\\u0000"}}',
    "metadata with a huge number": b'{"metadata": {"a": ' + b"9" * 100 + b"}}",
    "large metadata": json.dumps({"metadata": {"a": "x" * 300_000}}).encode(),
}
PATHS = [
    "tasks/",
    "pipeline-jobs/",
    "workers/",
    "phases/",
    "runs/submit/",
    "tasks/bulk-transitions/",
    "breakers/x/report/",
]


def send(caller: Caller, path: str, body: bytes, method: str = "post", kind: str = "application/json") -> object:
    return caller.client.generic(
        method.upper(), f"/api/v1/{path}", body, content_type=kind, headers={"Authorization": f"Bearer {caller.text}"}
    )


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_body_is_refused_by_every_kind_of_call(body: bytes) -> None:
    caller = Caller("override")
    job = world.created("PipelineJob").pk
    agent_job = world.created("AgentJob").pk
    worker = world.idle_worker().pk
    more = [
        f"pipeline-jobs/{job}/transitions/", f"pipeline-jobs/{job}/override/", f"pipeline-jobs/{job}/retry/",
        f"agent-jobs/{agent_job}/events/", f"workers/{worker}/claim/", f"workers/{worker}/heartbeat/",
    ]  # fmt: skip
    for path in [*PATHS, *more]:
        answer = send(caller, path, body)
        assert answer.status_code in (400, 409, 413), (path, answer.content)
        assert answer["Content-Type"] == "application/problem+json"
    answer = send(caller, f"pipeline-jobs/{job}/", body, "patch")
    assert answer.status_code in (400, 413), answer.content


def test_a_body_that_is_too_large_is_413() -> None:
    caller = Caller()
    for path in PATHS:
        expect_refusal(send(caller, path, b'{"a": "' + b"x" * 9_000_000 + b'"}'), 413, "too_large")


def test_a_body_of_another_type_is_415() -> None:
    caller = Caller()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "nonsense"):
        expect_refusal(send(caller, "pipeline-jobs/", b"a=1", kind=kind), 415, "unsupported_media_type")


def test_a_method_that_is_not_there_is_405() -> None:
    caller = Caller("override")
    for flow in registry.flows():
        response = send(caller, f"{flow.collection}/", b"", "delete")
        expect_refusal(response, 405, "method_not_allowed")
        assert "GET" in response["Allow"]


def test_an_unknown_host_is_a_json_problem(client: Client) -> None:
    response = client.get("/api/v1/tasks/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_strange_addresses_are_not_found() -> None:
    caller = Caller("read")
    for path in ("tasks//", "%2e%2e/", "%00/", "tasks/a/b/c/d/", "../../etc/passwd", "tasks/%ff/", "nope/"):
        assert caller.get(path).status_code == 404


def test_ids_that_no_database_keeps_are_not_found() -> None:
    caller = Caller("override")
    expect_refusal(caller.post("workers/a%00b/drain/", {}), 404, "not_found")
    expect_refusal(caller.get("runs/a%00b/at/"), 404, "not_found")


@pytest.mark.parametrize("query", ["since=0001-01-01T00:00:00Z", "until=9999-12-31T23:59:59Z"])
def test_the_ends_of_time_are_times(query: str) -> None:
    world.task()
    assert Caller("read").get(f"events/?{query}").status_code == 200


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00"])
def test_a_cursor_beyond_the_ends_of_time_leads_nowhere(moment: str) -> None:
    answer = json.dumps([False, "-created_at", moment, "t1"]).encode()
    cursor = base64.urlsafe_b64encode(answer).decode().rstrip("=")
    expect_refusal(Caller("read").get(f"tasks/?cursor={cursor}"), 404, "not_found")
