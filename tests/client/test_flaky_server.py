"""The client against a server that drops, delays and refuses: each call is executed exactly once."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from statecore_client import (
    AsyncClient,
    BreakerOpen,
    Client,
    Conflict,
    GuardFailed,
    IdempotencyMismatch,
    Invalid,
    LeaseLost,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Refused,
    RetryPolicy,
    StaleVersion,
    Throttled,
    Unreachable,
    Unsendable,
)
from statecore_client.connection import InvalidUrl
from statecore_client.refusals import UnexpectedResponse
from tests.client.flaky import (
    BROKEN,
    DONE_BUT_DAMAGED,
    DONE_BUT_DROPPED,
    DROPPED,
    HANGS,
    UNAVAILABLE,
    Flaky,
    Reply,
    refused,
    serving,
    throttled,
)

QUICK = RetryPolicy(first=0.001, longest=0.01, total=5)
Perform = Callable[..., Any]


def call_sync(url: str, call: Callable[[Any], Any], **settings: Any) -> Any:
    with closing(Client(url, "secret", **{"retry_policy": QUICK, **settings})) as client:
        result = call(client)
        return list(result) if hasattr(result, "__next__") else result


def call_async(url: str, call: Callable[[Any], Any], **settings: Any) -> Any:
    async def run() -> Any:
        async with AsyncClient(url, "secret", **{"retry_policy": QUICK, **settings}) as client:
            result = call(client)
            return [each async for each in result] if inspect.isasyncgen(result) else await result

    return asyncio.run(run())


@pytest.fixture(params=[call_sync, call_async])
def perform(request: pytest.FixtureRequest) -> Perform:
    return request.param  # type: ignore[no-any-return]


def fire(client: Any) -> Any:
    return client.fire("tasks", "t1", "worker_started", worker="w1")


@pytest.mark.parametrize("trouble", [DROPPED, DONE_BUT_DROPPED, DONE_BUT_DAMAGED, UNAVAILABLE, BROKEN, throttled(0)])
def test_a_transition_is_executed_once_despite_failures(perform: Perform, trouble: Reply) -> None:
    flaky = Flaky(trouble, trouble, trouble)
    with serving(flaky) as url:
        outcome = perform(url, fire)

    assert outcome.changed
    assert flaky.executions == 1
    assert len(flaky.requests) == 4
    assert len(set(flaky.keys)) == 1
    assert flaky.keys[0]


def test_a_lost_response_is_replayed_and_marked_as_a_replay(perform: Perform) -> None:
    with serving(Flaky(DONE_BUT_DROPPED)) as url:
        assert perform(url, fire).replayed


def test_two_calls_have_two_keys(perform: Perform) -> None:
    flaky = Flaky()
    with serving(flaky) as url:
        perform(url, fire)
        perform(url, fire)

    assert flaky.executions == len(set(flaky.keys)) == 2


def test_the_callers_request_id_is_the_idempotency_key(perform: Perform) -> None:
    flaky = Flaky()
    with serving(flaky) as url:
        perform(url, lambda client: client.submit_plan({"phase": "PH-1"}, request_id="nightly-7"))

    assert flaky.keys == ["nightly-7"]


def test_reads_are_retried_without_a_key(perform: Perform) -> None:
    flaky = Flaky(DROPPED, Reply(body={"epoch": 1, "position": 7}))
    with serving(flaky) as url:
        assert perform(url, lambda client: client.get_stats()).position == 7

    assert flaky.keys == ["", ""]


def test_a_hanging_request_is_retried_after_the_timeout(perform: Perform) -> None:
    flaky = Flaky(HANGS)
    with serving(flaky) as url:
        started = time.monotonic()
        assert perform(url, fire, timeout=0.2).changed
        assert time.monotonic() - started < 4

    assert flaky.executions == 1


def test_the_client_waits_for_retry_after(perform: Perform) -> None:
    with serving(Flaky(throttled(0.4))) as url:
        started = time.monotonic()
        perform(url, fire)

    assert time.monotonic() - started >= 0.4


def test_the_client_does_not_retry_longer_than_its_policy(perform: Perform) -> None:
    with serving(Flaky(throttled(3600))) as url:
        started = time.monotonic()
        with pytest.raises(Throttled) as caught:
            perform(url, fire)

    assert caught.value.retry_after == 3600
    assert time.monotonic() - started < 3


def test_a_refused_connection_is_unreachable(perform: Perform) -> None:
    with pytest.raises(Unreachable, match="tried"):
        perform("http://127.0.0.1:9", fire, retry_policy=RetryPolicy(first=0.01, longest=0.02, total=0.1))


def test_a_server_that_stays_broken_is_given_up(perform: Perform) -> None:
    with serving(Flaky(*[BROKEN] * 500)) as url, pytest.raises(Unreachable, match="status 502"):
        perform(url, fire, retry_policy=RetryPolicy(first=0.01, longest=0.02, total=0.1))


def test_a_server_that_stays_unavailable_is_given_up_with_its_reason(perform: Perform) -> None:
    full = refused(503, "database_full", detail="the disk of the database is full")
    with serving(Flaky(*[full] * 500)) as url, pytest.raises(Unreachable, match="the disk of the database is full"):
        perform(url, fire, retry_policy=RetryPolicy(first=0.01, longest=0.02, total=0.1))


REFUSALS: list[tuple[int, str, type[Refused]]] = [
    (400, "invalid", Invalid),
    (400, "unknown_trigger", Invalid),
    (401, "not_authenticated", NotAuthenticated),
    (403, "permission_denied", PermissionDenied),
    (404, "not_found", NotFound),
    (409, "invalid_transition", Conflict),
    (409, "terminal_state", Conflict),
    (409, "guard_failed", GuardFailed),
    (409, "lease_lost", LeaseLost),
    (409, "stale_version", StaleVersion),
    (409, "duplicate_id", Conflict),
    (413, "too_large", Invalid),
    (422, "idempotency_mismatch", IdempotencyMismatch),
    (503, "breaker_open", BreakerOpen),
    (418, "not_heard_of", Refused),
]


@pytest.mark.parametrize(("status", "code", "family"), REFUSALS)
def test_a_refusal_is_raised_at_once_with_its_facts(
    perform: Perform, status: int, code: str, family: type[Refused]
) -> None:
    flaky = Flaky(refused(status, code, state="queued", version=3))
    with serving(flaky) as url, pytest.raises(Refused) as caught:
        perform(url, fire)

    assert type(caught.value) is family
    assert (caught.value.status, caught.value.code, caught.value.detail) == (status, code, f"it is {code}")
    assert caught.value.facts == {"state": "queued", "version": 3}
    assert len(flaky.requests) == 1


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'"\xff"', b"[" * 100_000], ids=["page", "no text", "deep"])
def test_a_response_that_is_not_json_is_garbled(body: bytes, perform: Perform) -> None:
    with serving(Flaky(Reply(body=body))) as url, pytest.raises(UnexpectedResponse, match="JSON"):
        perform(url, lambda client: client.get_stats())


LACKING: dict[str, Callable[[Any], Any]] = {
    "results": lambda client: client.list("tasks"),
    "moves": lambda client: client.explain("tasks", "t1"),
    "tasks": lambda client: client.claim_tasks("w1"),
    "reports": lambda client: client.report_and_claim("w1", []),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_response_with_missing_fields_is_garbled(name: str, perform: Perform) -> None:
    for body in (b'{"id": "t1", "tasks": []}', b'{"id": "t1", "tasks": [], "%b": 7}' % name.encode()):
        if name == "tasks":
            body = body.replace(b'"tasks": []', b'"state": ""')
        with serving(Flaky(Reply(body=body))) as url, pytest.raises(UnexpectedResponse):
            perform(url, LACKING[name])


@pytest.mark.parametrize("value", [math.nan, math.inf, [{"deep": -math.inf}]], ids=["nan", "inf", "deep"])
def test_non_finite_numbers_are_not_sent(value: Any, perform: Perform) -> None:
    with serving(flaky := Flaky()) as url, pytest.raises(Unsendable, match="finite"):
        perform(url, lambda client: client.create("tasks", payload={"x": None, "y": value}))
    assert flaky.requests == []


@pytest.mark.parametrize("key", ["é", "a b", "", "k" * 201, 5])
def test_a_request_id_that_is_not_a_valid_header_is_not_sent(key: Any, perform: Perform) -> None:
    with serving(flaky := Flaky()) as url, pytest.raises(Unsendable, match="visible"):
        perform(url, lambda client: client.create("tasks", request_id=key))
    assert flaky.requests == []


def test_pagination_stays_on_the_configured_server(perform: Perform) -> None:
    def page(number: int, following: str | None) -> Reply:
        row = {"entity_type": "task", "id": f"t{number}", "state": "running"}
        return Reply(body={"results": [row], "next": following, "previous": None})

    elsewhere = "http://elsewhere.example/api/v1/stuck/?cursor=abc&kind=late&kind=decision&owner="
    flaky = Flaky(page(1, elsewhere), DROPPED, page(2, None))
    with serving(flaky) as url:
        found = perform(url, lambda client: client.list_stuck())

    assert [each.id for each in found] == ["t1", "t2"]
    assert [path for _method, path, _headers, _body in flaky.requests][1:] == [
        "/api/v1/stuck/?cursor=abc&kind=late&kind=decision&owner="
    ] * 2


@pytest.mark.parametrize(
    ("entity_id", "quoted"), [("../../admin", "..%2F..%2Fadmin"), ("..", "%2E%2E"), (".", "%2E"), ("a.b", "a.b")]
)
def test_the_token_is_sent_and_ids_cannot_escape_the_path(perform: Perform, entity_id: str, quoted: str) -> None:
    flaky = Flaky(refused(404, "not_found"))
    with serving(flaky) as url, pytest.raises(NotFound):
        perform(url, lambda client: client.get("tasks", entity_id))

    ((_method, path, headers, _body),) = flaky.requests
    assert path == f"/api/v1/tasks/{quoted}/"
    assert headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "statecore.example",
        "ftp://statecore.example",
        "http://",
        "http://a/?b=c",
        "http://[::1",
        "http://a:99999",
        "http://a\n/",
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        Client(url, "secret")
