"""The attack: one account opens WebSockets until the server has none left for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from statecore.api.live.asgi import render_refusal
from statecore.api.live.connections import get_connections
from statecore.api.refusals import TooManyStreams
from statecore.records import token as tokens
from tests.api.callers import member
from tests.live.in_process import Connection, InProcessApp, running_app
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(home: Any, redis_server: str, settings: Any) -> Iterator[InProcessApp]:
    settings.ALLOWED_HOSTS = ["localhost"]
    settings.STATECORE_STREAMS_PER_ACCOUNT = 2
    with running_app() as running:
        yield running


def headers(user: User, name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.make(name, user, 'read')[1]}"}


def opened(socket: Connection) -> bool:
    """Wait until the server has sent a message or closed the socket, and return whether it is open."""
    until(lambda: socket.messages or socket.closed is not None)
    return socket.closed is None


def test_an_account_has_a_limited_number_of_sockets_with_all_its_tokens(app: InProcessApp) -> None:
    ada, bob = member("ada"), member("bob")
    one, other = headers(ada, "one"), headers(ada, "other")
    first, second = app.socket("/ws/events/", one), app.socket("/ws/board/", other)
    assert opened(first)
    assert opened(second)
    third = app.socket("/ws/events/", other)
    assert not opened(third)
    assert third.closed == 1008
    assert opened(app.socket("/ws/events/", headers(bob, "of bob")))
    first.leave()
    until(lambda: get_connections(app.hub).count == 2)
    assert opened(app.socket("/ws/events/", one))


def test_the_refusal_names_the_limit_and_when_to_try_again() -> None:
    status, sent, body = render_refusal(TooManyStreams("this account has 2 open streams", limit=2, retry_after=10))
    assert status == 429
    assert (b"retry-after", b"10") in [(name.lower(), value) for name, value in sent]
    assert b'"code":"too_many_streams"' in body
