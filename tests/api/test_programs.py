"""API clients with a token use a fast path to the same views, which leaves no state behind."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections
from django.urls import URLResolver, get_resolver, resolve, set_script_prefix

from statecore.api import token_fastpath
from statecore.project import asgi_handler
from statecore.project.wsgi_handler import Handler
from tests.support import world
from tests.support.web import bearer


def routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for each in resolver.url_patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, route)
        else:
            yield route


def of_entities() -> list[list[str]]:
    """Returns the segments of every route that is as long as an entity's."""
    found = [route.split("/") for route in routes(get_resolver()) if route.startswith("api/v1/")]
    return [words for words in found if len(words) == 6 and not words[5]]


def test_every_call_about_an_entity_leads_where_django_leads_it() -> None:
    """Independent of earlier calls, and also where an id equals a segment of another route."""
    kinds = of_entities()
    ids = ["e1", "e2", *sorted({words[3] for words in kinds if "<" not in words[3]})]
    paths = [f"/api/v1/{words[2]}/{each}/{words[4]}/" for words in kinds if "<" not in words[4] for each in ids]
    assert len(paths) > 100

    for path in paths:
        answer, wanted = token_fastpath._resolve(path), resolve(path)
        assert (answer.func, answer.args, answer.kwargs, answer.route) == (
            wanted.func,
            wanted.args,
            wanted.kwargs,
            wanted.route,
        )


def test_an_address_that_leads_nowhere_is_not_remembered() -> None:
    before = dict(token_fastpath._entity_views)

    token_fastpath._resolve("/api/v1/nothing/e1/there/")

    assert token_fastpath._entity_views == before


@pytest.fixture(scope="module")
def handler() -> Iterator[Handler]:
    yield Handler()
    set_script_prefix("/")  # the last call's value is kept per thread


def called(handler: Handler, path: str, **more: Any) -> tuple[str, dict[str, str], bytes]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": "", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
        **more,
    }  # fmt: skip
    answer: list[Any] = []
    body = b"".join(handler(environ, lambda status, headers: answer.extend((status, dict(headers)))))
    return answer[0], answer[1], body


@pytest.mark.django_db(transaction=True)
def test_the_fast_path_sends_the_same_headers(handler: Handler) -> None:
    """The fast path skips the middleware and must set the same security headers."""
    token = {"HTTP_AUTHORIZATION": "Bearer none"}
    status, own, body = called(handler, "/api/v1/tasks/", **token)
    _status, usual, _body = called(handler, "/api/v1/tasks/", SCRIPT_NAME="/under", **token)

    assert status == "401 Unauthorized"
    assert int(own["Content-Length"]) == len(body)
    assert own.keys() == usual.keys()
    assert {name for name in own if own[name] != usual[name]} <= {"X-Request-ID", "Content-Length"}


@pytest.mark.django_db(transaction=True)
def test_a_post_gets_the_same_response_under_asgi(handler: Handler) -> None:
    agent, under_asgi = bearer("agent", "program"), asgi_handler.Handler()
    under_asgi.threads = ThreadPoolExecutor(1)  # one connection, which is closed below
    try:
        for headers, body in ((agent, b"[]"), (agent, b'{"max": 0}'), ({"Authorization": "Bearer none"}, b"{}")):
            status, own, answer = asyncio.run(posted(under_asgi, headers, body))
            more = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
            more |= {"HTTP_AUTHORIZATION": headers["Authorization"], "wsgi.input": io.BytesIO(body)}
            usual_status, usual, usual_answer = called(handler, "/api/v1/workers/w/claim/", **more)
            assert (status, answer) == (int(usual_status[:3]), usual_answer)
            assert own.keys() == usual.keys()
            assert {name for name in own if own[name] != usual[name]} == {"X-Request-ID"}
    finally:
        under_asgi.threads.submit(connections.close_all).result()
        under_asgi.threads.shutdown()


async def posted(
    handler: asgi_handler.Handler, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    given = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    scope = {
        "type": "http", "method": "POST", "path": "/api/v1/workers/w/claim/", "query_string": b"", "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    request = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(request, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(each["body"] for each in sent[1:])


@pytest.mark.django_db(transaction=True)
def test_a_program_is_sent_to_https_where_that_is_wanted(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler.calls.security, "redirect", True)

    status, headers, _body = called(handler, "/api/v1/tasks/", HTTP_AUTHORIZATION="Bearer none")

    assert status.startswith("301")
    assert headers["Location"] == "https://localhost/api/v1/tasks/"


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
def test_a_connection_that_is_not_to_be_kept_is_given_back(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    world.created("PipelineJob")
    connection.ensure_connection()
    monkeypatch.setattr(connection, "close_at", 0.0)

    called(handler, "/api/v1/tasks/", HTTP_AUTHORIZATION="Bearer none")

    assert connection.connection is None
