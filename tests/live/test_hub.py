"""One reader serves all sockets, recovers lost messages, and never waits for a slow client."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test import Client

from statecore import sessions
from statecore.api.live import connections as live_connections
from statecore.delivery import broadcast
from statecore.delivery.live import ring, subscription
from statecore.delivery.live.hub import Hub
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.live import Live
from statecore.journal import Event, archive
from statecore.journal.position import Position, head
from statecore.read_models import board
from statecore.records import token as tokens
from statecore.records.token import Token
from statecore.storage import triggers
from tests.api.callers import member
from tests.api.test_rights import plain_user
from tests.live.in_process import Connection, InProcessApp, running_app
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.waiting import until
from tests.support.web import bearer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(home, redis_server, settings) -> Iterator[InProcessApp]:
    settings.ALLOWED_HOSTS = ["localhost"]
    with running_app() as running:
        yield running


def create_runs(count: int) -> None:
    phase = world.phase()
    for _ in range(count):
        world.run(phase=phase)


@contextmanager
def statements(app: InProcessApp) -> Iterator[list[str]]:
    """Record the statements that the shared reader connection executes."""
    executed: list[str] = []

    def note(execute, sql, *rest):
        executed.append(sql)
        return execute(sql, *rest)

    app.run(app.hub.reader.run(lambda: connection.execute_wrappers.append(note)))
    yield executed
    app.run(app.hub.reader.run(lambda: connection.execute_wrappers.remove(note)))


def open_sockets(app: InProcessApp, count: int, headers: dict[str, str]) -> list[Connection]:
    """Open `count` event sockets and `count` board sockets."""
    sockets = [app.socket(path, headers) for path in ("/ws/events/", "/ws/board/") for _ in range(count)]
    until(lambda: all(socket.messages for socket in sockets))
    return sockets


def last_position(socket: Connection) -> int:
    message = socket.messages[-1]
    return int((message["events"][-1] if message["type"] == "events" else message)["position"])


def test_two_hundred_sockets_cost_the_database_as_much_as_one(app: InProcessApp) -> None:
    sockets = open_sockets(app, 100, bearer())
    started = time.monotonic()
    with statements(app) as executed:
        for _ in range(3):
            create_runs(20)
            catch_up(Counters(), Live())
            until(lambda: all(last_position(socket) == head() for socket in sockets))
    seconds = time.monotonic() - started
    assert [thread.name.startswith("live-reader") for thread in threading.enumerate()].count(True) == 1
    # Events arrive in the message. The head of the journal is queried every second and the board every half second,
    # independent of the number of sockets; a lost message causes one more query.
    assert executed
    assert max(Counter(executed).values()) <= 2 * seconds + 3
    for socket in sockets:
        socket.leave()
    until(lambda: app.hub.watchers == 0)


def test_sockets_with_the_same_content_share_the_same_bytes(app: InProcessApp) -> None:
    user = plain_user("ada", "view_task", "view_event")
    some = {"Authorization": f"Bearer {tokens.make('some', user, 'read')[1]}"}
    sockets = {path: [app.socket(f"/ws/{path}/", some) for _ in range(10)] for path in ("events", "board")}
    until(lambda: all(socket.messages for group in sockets.values() for socket in group))
    world.task()
    catch_up(Counters(), Live())
    until(lambda: all(len(socket.messages) > 1 for group in sockets.values() for socket in group))
    for group in sockets.values():
        assert len({id(socket.texts[1]) for socket in group}) == 1


def test_messages_are_paced(app: InProcessApp) -> None:
    events, board = open_sockets(app, 1, bearer())
    for _ in range(8):
        count = len(events.messages), len(board.messages)
        create_runs(1)
        catch_up(Counters(), Live())
        until(lambda count=count: (len(events.messages), len(board.messages)) > count)
    until(lambda: last_position(board) == head())
    assert all(later - sooner >= 0.25 for sooner, later in pairwise(events.times[1:]))
    assert all(later - sooner >= 0.5 for sooner, later in pairwise(board.times))


def test_events_of_a_lost_message_are_read_from_the_journal(app: InProcessApp) -> None:
    socket = app.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    create_runs(3)
    catch_up()  # sends no message
    until(lambda: socket.positions == [1, 2, 3])
    create_runs(2)
    catch_up()
    create_runs(2)
    catch_up(Live())
    until(lambda: socket.positions == [*range(1, 8)])


def test_an_unreadable_event_is_skipped(app: InProcessApp) -> None:
    create_runs(3)
    catch_up()
    with triggers.disabled(connection):
        Event.objects.filter(pk=Position.objects.get(position=2).event_id).update(body="{")
    socket = app.socket("/ws/events/", bearer(), "after=0")
    until(lambda: socket.positions == [1, 3])
    create_runs(1)
    catch_up()
    until(lambda: socket.positions == [1, 3, 4])


def test_a_socket_receives_only_events_its_user_may_view(app: InProcessApp) -> None:
    permissions = Permission.objects.filter(codename__in=["view_run", "view_event"])
    Group.objects.create(name="runners").permissions.set(permissions)
    ada = member("ada", "runners")
    headers = {"Authorization": f"Bearer {tokens.make('runs only', ada, 'read')[1]}"}
    everything, some = app.socket("/ws/events/", bearer()), app.socket("/ws/events/", headers)
    board = app.socket("/ws/board/", headers)
    until(lambda: everything.of_type("hello") and some.of_type("hello") and board.of_type("snapshot"))
    assert set(board.of_type("snapshot")[0]["counts"]) == {"run"}
    world.task()
    catch_up(Live())
    until(lambda: everything.positions[-1:] == [head()])
    until(lambda: some.positions)
    entity_types = [each["event"]["entity_type"] for message in some.of_type("events") for each in message["events"]]
    assert set(entity_types) == {"run"}


def test_a_position_ahead_of_the_hub_is_accepted(app: InProcessApp, monkeypatch) -> None:
    """A page reads the head of the journal from the database and may be ahead of the hub."""
    monkeypatch.setattr(sys.modules[Hub.__module__], "POLL_SECONDS", 60.0)  # as if the hub had just polled
    headers = bearer()
    first = app.socket("/ws/events/", headers)
    until(lambda: first.of_type("hello"))
    create_runs(3)
    catch_up()  # sends no message
    second = app.socket("/ws/events/", headers, f"after={head()}")
    until(lambda: second.of_type("hello"))
    assert second.of_type("hello") == [{"type": "hello", "position": 3, "epoch": 1}]
    create_runs(1)
    catch_up(Live())
    until(lambda: second.positions == [4])
    assert not second.of_type("resnapshot")
    strange = app.socket("/ws/events/", headers, "after=1000")
    until(lambda: strange.of_type("resnapshot"))


def test_a_slow_reader_delays_no_other_and_catches_up_from_the_journal(app: InProcessApp, monkeypatch) -> None:
    monkeypatch.setattr(ring, "MAX_EVENTS", 10)
    headers = bearer()
    slow, quick = app.socket("/ws/events/", headers), app.socket("/ws/events/", headers)
    until(lambda: slow.of_type("hello") and quick.of_type("hello"))
    slow.stall()
    for _ in range(5):
        create_runs(10)
        catch_up(Live())
        until(lambda: quick.positions[-1:] == [head()])
    assert quick.positions == [*range(1, 51)]
    assert len(app.hub.ring.events) <= 20
    slow.resume()
    until(lambda: slow.positions[-1:] == [50])
    create_runs(1)
    catch_up(Live())
    until(lambda: slow.positions[-1:] == [51])
    assert slow.positions == [*range(1, 52)]
    assert not slow.of_type("resnapshot")


def test_an_event_in_memory_takes_little_more_than_its_text() -> None:
    (event,) = world.events_of(world.run())
    tracemalloc.start()
    try:
        kept = [ring.StreamEvent.serialize(position, event) for position in range(100)]
        size, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 2 * sum(len(each.text) for each in kept)


@pytest.mark.parametrize("portion", [7, 500])
def test_a_position_that_has_left_the_memory_is_served_from_the_journal(
    app: InProcessApp, monkeypatch, portion: int
) -> None:
    monkeypatch.setattr(sys.modules[Hub.__module__], "MAX_EVENTS", 10)
    monkeypatch.setattr(ring, "MAX_EVENTS", 10)
    monkeypatch.setattr(subscription, "EVENTS_PER_FRAME", portion)
    create_runs(48)
    world.task()
    catch_up()
    headers = bearer()
    everything = app.socket("/ws/events/", headers, "after=3")
    tasks = app.socket("/ws/events/", headers, "after=3&entity_type=task")

    until(lambda: everything.positions[-1:] == [head()])
    until(lambda: tasks.positions)
    assert everything.positions == [*range(4, head() + 1)]
    assert tasks.positions == [head()]
    create_runs(1)
    catch_up(Live())
    until(lambda: everything.positions[-1:] == [head()])
    for socket in (everything, tasks):
        assert socket.of_type("hello") == [{"type": "hello", "position": 3, "epoch": 1}]
        assert not socket.of_type("resnapshot")


def test_a_reader_starts_over_when_its_next_events_are_archived(app: InProcessApp, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[Hub.__module__], "MAX_EVENTS", 10)
    create_runs(30)
    catch_up()
    monkeypatch.setattr(archive, "get_last_archived_position", lambda: 12)
    headers = bearer()
    archived, retained = (app.socket("/ws/events/", headers, f"after={after}") for after in (11, 12))

    until(lambda: archived.of_type("resnapshot") and retained.positions[-1:] == [30])
    assert archived.of_type("resnapshot") == [
        {"type": "resnapshot", "position": 30, "epoch": 1, "reason": "not_available"}
    ]
    assert archived.positions == []
    assert retained.positions == [*range(13, 31)]


def test_a_client_that_receives_nothing_is_disconnected(app: InProcessApp, monkeypatch) -> None:
    monkeypatch.setattr("statecore.api.live.socket.SEND_TIMEOUT", 0.2)
    socket = app.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    socket.stall()
    create_runs(1)
    catch_up(Live())
    until(lambda: app.hub.watchers == 0)


def test_revoked_and_logged_out_clients_are_disconnected(app: InProcessApp, monkeypatch, client) -> None:
    from tests.live.test_access import session_cookie

    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    stays = app.socket("/ws/events/", bearer(name="stays"))
    revoked = app.socket("/ws/events/", bearer(name="revoked"))
    logged_out = app.socket("/ws/board/", {**session_cookie(), "Origin": "http://localhost"})
    until(lambda: stays.messages and revoked.messages and logged_out.messages)

    demoted = app.socket("/ws/events/", {"Authorization": f"Bearer {tokens.make('t', member('d'), 'read')[1]}"})
    until(lambda: demoted.messages)
    tokens.revoke(Token.objects.get(name="revoked"))
    User.objects.get(username="d").groups.clear()
    Session.objects.all().delete()
    until(lambda: (revoked.closed, logged_out.closed, demoted.closed) == (1008, 1008, 1008))
    assert stays.closed is None
    assert live_connections.CHECK_SECONDS < 60


def test_password_only_sessions_are_disconnected_once_2fa_is_required(app: InProcessApp, monkeypatch, settings) -> None:
    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    alone, with_code, display = browser("ada", password="a"), browser("bob", password="b", passed=True), browser("wall")
    sockets = [app.socket("/ws/board/", cookie) for cookie in (alone, with_code, display)]
    until(lambda: all(socket.messages for socket in sockets))
    settings.STATECORE_SECOND_FACTOR = "required"

    until(lambda: sockets[0].closed == 1008)
    again = [app.socket("/ws/events/", cookie) for cookie in (alone, with_code, display)]
    until(lambda: again[0].closed == 1008 and again[1].messages and again[2].messages)
    assert [socket.closed for socket in (*sockets[1:], *again[1:])] == [None] * 4


def browser(name: str, *, password: str | None = None, passed: bool = False) -> dict[str, str]:
    user = member(name)
    if password:
        user.set_password(password)
        user.save()
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    if passed:
        session = client.session
        session[sessions.SECOND_FACTOR_PASSED] = True
        session.save()
    return {"Cookie": f"sessionid={client.cookies['sessionid'].value}", "Origin": "http://localhost"}


def test_a_restricted_board_adds_up_to_the_visible_machines(app: InProcessApp) -> None:
    user = plain_user("ada", "view_task")
    headers = {"Authorization": f"Bearer {tokens.make('some', user, 'read')[1]}"}
    world.queued_task()
    catch_up(Counters(), Live())
    socket = app.socket("/ws/board/", headers)
    until(lambda: socket.of_type("snapshot"))
    assert set(socket.of_type("snapshot")[0]["counts"]) == {"task"}
    world.queued_task()
    world.forced(world.idle_worker(), "shutdown")
    catch_up(Counters(), Live())

    def shown() -> dict[str, Any]:
        state = dict(socket.of_type("snapshot")[0])
        for delta in socket.of_type("delta"):
            state = board.apply_merge_patch(state, delta)
        return state

    until(lambda: shown()["counts"]["task"]["queued"] == 2 and is_current(shown(), board.get_stats({"task"})))
    assert "worker" not in str(socket.messages)
    assert len(socket.of_type("snapshot")) == 1


def is_current(shown: dict[str, Any], fresh: dict[str, Any]) -> bool:
    return all(fresh[name] == shown[name] for name in fresh)


def test_the_hub_recovers_after_the_database_was_unavailable(app: InProcessApp) -> None:
    socket = app.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            others = "pid <> pg_backend_pid() AND datname = current_database()"
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    create_runs(2)
    catch_up()
    until(lambda: socket.positions == [1, 2])


class IgnoresCancellation:
    """Behaves like the Redis client when it is cancelled just after it has sent its command."""

    async def new_channel(self) -> str:
        return "channel"

    async def group_add(self, group: str, channel: str) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def receive(self, channel: str) -> Any:
        await asyncio.Event().wait()

    async def group_discard(self, group: str, channel: str) -> None:
        pass


def test_the_hub_stops_even_if_a_cancellation_is_ignored(monkeypatch) -> None:
    monkeypatch.setattr(broadcast, "get_channel_layer", IgnoresCancellation)

    async def connect_and_disconnect() -> set[Any]:
        app = Hub()
        async with app.watch():
            pass
        _done, pending = await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)
        return pending

    try:
        assert asyncio.run(connect_and_disconnect()) == set()
    finally:
        connections.close_all()
