"""Listeners of an epoch that ended are instructed to resynchronise, instead of reading reused positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.live import MESSAGE, Live
from statecore.delivery.sinks.tree import Tree
from statecore.journal import epochs
from statecore.journal.position import head
from statecore.operations import backup, integrity
from statecore_client import Client, EpochEnded, RetryPolicy
from tests.backup.tables import flush_database
from tests.client.flaky import Flaky, Reply, serving
from tests.client.test_stream import event
from tests.live.in_process import InProcessApp, running_app
from tests.support import world
from tests.support.failover import lose_events_after
from tests.support.sequencer import catch_up, sign
from tests.support.waiting import until
from tests.support.web import bearer

pytestmark = pytest.mark.django_db(transaction=True)


def deliver() -> None:
    catch_up(JournalFile(), Tree(), Live())


def fail_over() -> int:
    """Loses two confirmed events, and returns the last position that is kept."""
    world.workstream()
    deliver()
    kept = head()
    world.run()
    world.run()
    deliver()
    sign()
    lose_events_after(kept)
    return kept


@pytest.fixture
def app(home: Path, redis_server: str, settings) -> Iterator[InProcessApp]:
    settings.ALLOWED_HOSTS = ["localhost"]
    with running_app() as running:
        yield running


def test_a_live_process_drops_what_was_lost_and_instructs_its_sockets(app: InProcessApp) -> None:
    headers = bearer()
    world.workstream()
    deliver()
    kept = head()
    following = app.socket("/ws/events/", headers, f"after=1-{kept}")
    until(lambda: following.of_type("hello"))
    world.run()
    world.run()
    deliver()
    sign()
    until(lambda: following.positions == [kept + 1, kept + 2])

    lose_events_after(kept)
    world.run()
    deliver()
    until(lambda: following.of_type("resnapshot"))
    (told,) = following.of_type("resnapshot")
    assert (told["epoch"], told["reason"], told["kept"]) == (2, "epoch", kept)
    world.run()
    deliver()
    until(lambda: following.positions[-1] == head())
    assert following.of_type("events")[-1]["epoch"] == 2

    early, late = (app.socket("/ws/events/", headers, f"after=1-{kept + extra}") for extra in (0, 1))
    until(lambda: early.positions == [kept + 2, kept + 3], 20)
    assert not early.of_type("resnapshot"), "its position means the same in both epochs"
    until(lambda: late.of_type("resnapshot"))
    assert (late.of_type("resnapshot")[0]["kept"], late.positions) == (kept, [])
    ahead = app.socket("/ws/events/", headers, "after=3-1")
    until(lambda: ahead.closed is not None)
    assert ahead.messages == []


def test_a_broadcast_of_another_epoch_is_never_taken_into_the_memory(app: InProcessApp) -> None:
    """The former primary is alive, and so is its sequencer, which shares the broker."""
    world.workstream()
    deliver()
    socket = app.socket("/ws/events/", bearer())
    until(lambda: socket.of_type("hello"))
    deliver()
    position = head() + 1
    stale = {"type": MESSAGE, "epoch": 7, "first": position, "last": position, "events": [event(position)]}
    app.loop.call_soon_threadsafe(app.hub._handle_message, stale)
    world.run()
    deliver()
    until(lambda: socket.positions)

    received = [each["event"]["event_id"] for frame in socket.of_type("events") for each in frame["events"]]
    assert f"evt_{position}" not in received


def test_a_reader_of_pages_is_refused_a_lost_position(home: Path) -> None:
    kept = fail_over()
    deliver()
    browser = Browser(headers=bearer())

    refused = browser.get(f"/api/v1/events/?after=1-{kept + 1}")
    assert (refused.status_code, refused.json()["code"]) == (409, "epoch_ended")
    assert (refused.json()["epoch"], refused.json()["kept"]) == (2, kept)
    page = browser.get(f"/api/v1/events/?after=1-{kept - 1}&page_size=1").json()
    assert (page["epoch"], page["results"][0]["position"]) == (2, kept)
    first = browser.get("/api/v1/events/?page_size=1").json()
    assert f"after=2-{first['results'][0]['position']}" in first["next"]
    assert browser.get("/api/v1/events/?after=x").status_code == 400
    (listed,) = browser.get("/api/v1/audit/epochs/").json()["results"]
    assert (listed["epoch"], listed["kept"], listed["lost"]["count"]) == (2, kept, 2)


def test_the_console_lists_the_lost_events(home: Path, client: Browser) -> None:
    kept = fail_over()
    deliver()
    client.force_login(User.objects.create_superuser("ada"))
    page = client.get("/audit/").content.decode()

    (epoch,) = epochs.list_epochs()
    assert f"positions {kept + 1}\N{EN DASH}{kept + 2} were lost" in page
    assert epoch.losses is not None
    assert all(each["entity_id"] in page for each in epoch.losses.events)


def test_a_restore_starts_an_epoch_and_names_the_events_after_the_export(home: Path) -> None:
    world.workstream()
    deliver()
    sign()
    folder = backup.export(home / "backup")
    kept = head()
    world.run()
    deliver()
    sign()
    flush_database()

    backup.restore(folder)
    (epoch,) = epochs.list_epochs()
    assert (epoch.number, epoch.reason, epoch.kept) == (2, "restore", kept)
    assert epoch.losses is not None
    assert (epoch.losses.first, epoch.losses.last) == (kept + 1, kept + 1)
    deliver()
    sign()
    assert "\nepoch 2\n" in (home / "checkpoint").read_text()
    assert integrity.check_all() == []

    again = backup.export(home / "backup")
    flush_database()
    backup.restore(again, epoch=9)
    assert [each.number for each in epochs.list_epochs()] == [9, 2]


QUICK = RetryPolicy(first=0.001, longest=0.01, total=5)
LOST = {"type": "resnapshot", "position": 6, "epoch": 2, "reason": "epoch", "kept": 4}


def replies() -> Flaky:
    def reply(*parts: str) -> Reply:
        return Reply(body="".join(parts).encode(), headers={"Content-Type": "text/event-stream"})

    def streamed(epoch: int, position: int) -> str:
        return f"id: {epoch}-{position}\ndata: {json.dumps(event(position))}\n\n"

    return Flaky(
        reply(streamed(1, 5), streamed(1, 6), streamed(1, 7)),
        reply(f"id: 2-6\nevent: resnapshot\ndata: {json.dumps(LOST)}\n\n", streamed(2, 7)),
    )


@pytest.mark.once_on("postgres")
def test_the_client_reports_the_end_of_an_epoch_and_continues() -> None:
    ended: list[EpochEnded] = []
    flaky = replies()
    with serving(flaky) as url, Client(url, "secret", retry_policy=QUICK) as client:
        received = list(islice(client.stream_events(after="1-4", on_epoch=ended.append), 4))

    assert [each.cursor for each in received] == ["1-5", "1-6", "1-7", "2-7"]
    assert [(each.epoch, each.kept) for each in ended] == [(2, 4)]
    assert [path for _method, path, _headers, _body in flaky.requests] == [
        "/api/v1/events/?after=1-4",
        "/api/v1/events/?after=1-7",
    ]


@pytest.mark.once_on("postgres")
def test_the_client_does_not_continue_silently() -> None:
    with serving(replies()) as url, Client(url, "secret", retry_policy=QUICK) as client:
        stream = client.stream_events(after=4)
        assert [next(stream).position for _ in range(3)] == [5, 6, 7]
        with pytest.raises(EpochEnded, match="events after position 4 were lost"):
            next(stream)
