"""One reader for all who watch; what is lost on the way is read; who is slow waits for nobody and nobody for him."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
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

from api.live import presence
from statecore import board, sessions
from statecore.journal import Event
from statecore.kernel import triggers
from statecore.live import ring
from statecore.live.hub import Hub
from statecore.records import token as tokens
from statecore.records.position import Position, head
from statecore.records.token import Token
from statecore.sinks.counters import Counters
from statecore.sinks.live import Live
from tests.api.callers import member
from tests.api.test_rights import plain_user
from tests.live.inside import Connection, Inside, inside
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.waiting import until
from tests.support.web import bearer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def here(home, redis_server, settings) -> Iterator[Inside]:
    settings.ALLOWED_HOSTS = ["localhost"]
    with inside() as made:
        yield made


def runs(count: int) -> None:
    phase = world.phase()
    for _ in range(count):
        world.run(phase=phase)


@contextmanager
def statements(here: Inside) -> Iterator[list[str]]:
    """What the one connection of all who watch is given to do meanwhile."""
    given: list[str] = []

    def note(execute, sql, *rest):
        given.append(sql)
        return execute(sql, *rest)

    here.do(here.hub.reader.ask(lambda: connection.execute_wrappers.append(note)))
    yield given
    here.do(here.hub.reader.ask(lambda: connection.execute_wrappers.remove(note)))


def opened(here: Inside, count: int, headers: dict[str, str]) -> list[Connection]:
    """So many sockets for events, and as many for the board."""
    sockets = [here.socket(path, headers) for path in ("/ws/events/", "/ws/board/") for _ in range(count)]
    until(lambda: all(socket.messages for socket in sockets))
    return sockets


def last_heard(socket: Connection) -> int:
    message = socket.messages[-1]
    return int((message["events"][-1] if message["type"] == "events" else message)["position"])


def test_two_hundred_sockets_cost_the_database_what_one_costs(here: Inside) -> None:
    sockets = opened(here, 100, bearer())
    begun = time.monotonic()
    with statements(here) as given:
        for _ in range(3):
            runs(20)
            catch_up(Counters(), Live())
            until(lambda: all(last_heard(socket) == head() for socket in sockets))
    seconds = time.monotonic() - begun
    assert [thread.name.startswith("live-reader") for thread in threading.enumerate()].count(True) == 1
    # Events come with the message. How far the journal is is asked each second and what is on the board each half,
    # whoever watches; a message that was lost is a reason to ask in between.
    assert given
    assert max(Counter(given).values()) <= 2 * seconds + 3
    for socket in sockets:
        socket.leave()
    until(lambda: here.hub.watchers == 0)


def test_who_is_told_the_same_is_given_the_same_bytes(here: Inside) -> None:
    user = plain_user("ada", "view_task", "view_event")
    some = {"Authorization": f"Bearer {tokens.make('some', user, 'read')[1]}"}
    sockets = {path: [here.socket(f"/ws/{path}/", some) for _ in range(10)] for path in ("events", "board")}
    until(lambda: all(socket.messages for those in sockets.values() for socket in those))
    world.task()
    catch_up(Counters(), Live())
    until(lambda: all(len(socket.messages) > 1 for those in sockets.values() for socket in those))
    for those in sockets.values():
        assert len({id(socket.texts[1]) for socket in those}) == 1


def test_nobody_is_told_more_often_than_was_said(here: Inside) -> None:
    events, board = opened(here, 1, bearer())
    for _ in range(8):
        count = len(events.messages), len(board.messages)
        runs(1)
        catch_up(Counters(), Live())
        until(lambda count=count: (len(events.messages), len(board.messages)) > count)
    until(lambda: last_heard(board) == head())
    assert all(later - sooner >= 0.25 for sooner, later in pairwise(events.times[1:]))
    assert all(later - sooner >= 0.5 for sooner, later in pairwise(board.times))


def test_a_message_that_was_lost_is_read_from_the_journal(here: Inside) -> None:
    socket = here.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    runs(3)
    catch_up()  # nobody is told
    until(lambda: socket.positions == [1, 2, 3])
    runs(2)
    catch_up()
    runs(2)
    catch_up(Live())
    until(lambda: socket.positions == [*range(1, 8)])


def test_an_event_that_cannot_be_read_is_passed_over(here: Inside) -> None:
    runs(3)
    catch_up()
    with triggers.lowered(connection):
        Event.objects.filter(pk=Position.objects.get(position=2).event_id).update(body="{")
    socket = here.socket("/ws/events/", bearer(), "after=0")
    until(lambda: socket.positions == [1, 3])
    runs(1)
    catch_up()
    until(lambda: socket.positions == [1, 3, 4])


def test_who_sees_one_machine_is_told_of_no_other(here: Inside) -> None:
    rights = Permission.objects.filter(codename__in=["view_run", "view_event"])
    Group.objects.create(name="runners").permissions.set(rights)
    ada = member("ada", "runners")
    headers = {"Authorization": f"Bearer {tokens.make('runs only', ada, 'read')[1]}"}
    everything, some = here.socket("/ws/events/", bearer()), here.socket("/ws/events/", headers)
    board = here.socket("/ws/board/", headers)
    until(lambda: everything.of_type("hello") and some.of_type("hello") and board.of_type("snapshot"))
    assert set(board.of_type("snapshot")[0]["counts"]) == {"run"}
    world.task()
    catch_up(Live())
    until(lambda: everything.positions[-1:] == [head()])
    until(lambda: some.positions)
    told = [each["event"]["entity_type"] for message in some.of_type("events") for each in message["events"]]
    assert set(told) == {"run"}


def test_who_comes_with_a_position_that_was_not_heard_of_yet_goes_on_from_there(here: Inside, monkeypatch) -> None:
    """A page reads the head of the journal itself, and may be ahead of what follows it."""
    monkeypatch.setattr(sys.modules[Hub.__module__], "TICK", 60.0)  # as if it had just looked
    headers = bearer()
    first = here.socket("/ws/events/", headers)
    until(lambda: first.of_type("hello"))
    runs(3)
    catch_up()  # nobody is told
    second = here.socket("/ws/events/", headers, f"after={head()}")
    until(lambda: second.of_type("hello"))
    assert second.of_type("hello") == [{"type": "hello", "position": 3}]
    runs(1)
    catch_up(Live())
    until(lambda: second.positions == [4])
    assert not second.of_type("resnapshot")
    strange = here.socket("/ws/events/", headers, "after=1000")
    until(lambda: strange.of_type("resnapshot"))


def test_a_slow_reader_keeps_nobody_waiting_and_is_told_to_read_anew(here: Inside, monkeypatch) -> None:
    monkeypatch.setattr(ring, "MOST_EVENTS", 10)
    headers = bearer()
    slow, quick = here.socket("/ws/events/", headers), here.socket("/ws/events/", headers)
    until(lambda: slow.of_type("hello") and quick.of_type("hello"))
    slow.stall()
    for _ in range(5):
        runs(10)
        catch_up(Live())
        until(lambda: quick.positions[-1:] == [head()])
    assert quick.positions == [*range(1, 51)]
    assert len(here.hub.ring.events) <= 20
    slow.go_on()
    until(lambda: slow.of_type("resnapshot"))
    assert slow.of_type("resnapshot") == [{"type": "resnapshot", "position": 50}]
    runs(1)
    catch_up(Live())
    until(lambda: slow.positions[-1:] == [51])
    assert slow.positions == sorted(set(slow.positions))


def test_who_takes_nothing_is_given_up(here: Inside, monkeypatch) -> None:
    monkeypatch.setattr("api.live.socket.PATIENCE", 0.2)
    socket = here.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    socket.stall()
    runs(1)
    catch_up(Live())
    until(lambda: here.hub.watchers == 0)


def test_who_may_not_stay_is_shown_out(here: Inside, monkeypatch, client) -> None:
    from tests.live.test_doors import session_cookie

    monkeypatch.setattr(presence, "EVERY", 0.1)
    stays = here.socket("/ws/events/", bearer(name="stays"))
    revoked = here.socket("/ws/events/", bearer(name="revoked"))
    logged_out = here.socket("/ws/board/", {**session_cookie(), "Origin": "http://localhost"})
    until(lambda: stays.messages and revoked.messages and logged_out.messages)

    demoted = here.socket("/ws/events/", {"Authorization": f"Bearer {tokens.make('d', member('d'), 'read')[1]}"})
    until(lambda: demoted.messages)
    tokens.revoke(Token.objects.get(name="revoked"))
    User.objects.get(username="d").groups.clear()
    Session.objects.all().delete()
    until(lambda: (revoked.closed, logged_out.closed, demoted.closed) == (1008, 1008, 1008))
    assert stays.closed is None
    assert presence.EVERY < 60


def test_who_came_in_by_password_alone_is_shown_out_once_a_second_factor_is_required(
    here: Inside, monkeypatch, settings
) -> None:
    monkeypatch.setattr(presence, "EVERY", 0.1)
    alone, with_code, screen = browser("ada", password="a"), browser("bob", password="b", passed=True), browser("wall")
    sockets = [here.socket("/ws/board/", cookie) for cookie in (alone, with_code, screen)]
    until(lambda: all(socket.messages for socket in sockets))
    settings.STATECORE_SECOND_FACTOR = "required"

    until(lambda: sockets[0].closed == 1008)
    again = [here.socket("/ws/events/", cookie) for cookie in (alone, with_code, screen)]
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


def test_the_board_of_who_sees_some_machines_adds_up_to_these(here: Inside) -> None:
    user = plain_user("ada", "view_task")
    headers = {"Authorization": f"Bearer {tokens.make('some', user, 'read')[1]}"}
    world.queued_task()
    catch_up(Counters(), Live())
    socket = here.socket("/ws/board/", headers)
    until(lambda: socket.of_type("snapshot"))
    assert set(socket.of_type("snapshot")[0]["counts"]) == {"task"}
    world.queued_task()
    world.forced(world.idle_worker(), "shutdown")
    catch_up(Counters(), Live())

    def shown() -> dict[str, Any]:
        made = dict(socket.of_type("snapshot")[0])
        for delta in socket.of_type("delta"):
            made = board.patched(made, delta)
        return made

    until(lambda: shown()["counts"]["task"]["queued"] == 2 and same_as(shown(), board.stats({"task"})))
    assert "worker" not in str(socket.messages)
    assert len(socket.of_type("snapshot")) == 1


def same_as(shown: dict[str, Any], fresh: dict[str, Any]) -> bool:
    return all(fresh[name] == shown[name] for name in fresh)


def test_the_journal_is_followed_again_after_the_database_was_away(here: Inside) -> None:
    socket = here.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            others = "pid <> pg_backend_pid() AND datname = current_database()"
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    runs(2)
    catch_up()
    until(lambda: socket.positions == [1, 2])


class GoesOn:
    """As the client of Redis does that is cancelled at the moment it has sent what it had to."""

    async def new_channel(self) -> str:
        return "channel"

    async def group_add(self, group: str, channel: str) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def receive(self, channel: str) -> Any:
        await asyncio.Event().wait()

    async def group_discard(self, group: str, channel: str) -> None:
        pass


def test_who_did_not_hear_that_nobody_watches_any_more_ends_all_the_same(monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[Hub.__module__], "get_channel_layer", GoesOn)

    async def come_and_go() -> set[Any]:
        here = Hub()
        async with here.watching():
            pass
        _ended, left = await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)
        return left

    try:
        assert asyncio.run(come_and_go()) == set()
    finally:
        connections.close_all()
