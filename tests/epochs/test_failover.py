"""A real primary, streaming replica and promotion: what the replica lacked is named, and listeners resynchronise."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from statecore.records import Phase
from statecore_client import Client, EpochEnded, NotFound, Outage, Unreachable
from statecore_client.records import PositionedEvent
from tests.support import postgres, sequencer
from tests.support.databases import pointed_at
from tests.support.site import running, token
from tests.support.waiting import until

pytestmark = pytest.mark.once_on("postgres")


class Listener:
    """A client that follows the journal from its beginning, over every outage."""

    def __init__(self, client: Client) -> None:
        self.client, self.received, self.ended = client, list[PositionedEvent](), list[EpochEnded]()
        self.is_stopped = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with suppress(Unreachable):
            for each in self.client.stream_events(after=0, on_epoch=self.ended.append, on_outage=self._note_outage):
                self.received.append(each)

    def _note_outage(self, outage: Outage) -> None:
        if self.is_stopped.is_set():
            raise Unreachable(outage.error)

    def stop(self) -> None:
        """Ends the thread at the next outage: the server is gone."""
        self.is_stopped.set()
        self.thread.join(20)

    def has(self, run: str) -> bool:
        return any(each.event.entity_id == run for each in self.received)


def submit(client: Client, run: str) -> None:
    plan = {"id": run, "phase": "PH-1", "workstreams": [{"id": f"{run}-w", "tasks": [{"id": f"{run}-t"}]}]}
    client.submit_plan(plan)


def count_positions(url: str) -> int:
    with psycopg.connect(url) as session:
        return int(session.execute("SELECT count(*) FROM statecore_position").fetchone()[0])  # type: ignore[index]


def read_signed_size(home: Path) -> int:
    path = home / "checkpoint"
    return int(path.read_text().splitlines()[1]) if path.exists() else 0


def get(client: Client, path: str) -> httpx.Response:
    return client.channel.http.get(path)


def read_epochs(client: Client) -> list[dict[str, Any]]:
    response = get(client, "audit/epochs/")
    return response.json()["results"] if response.status_code == 200 else []


def test_a_failover_names_what_is_lost_and_listeners_resynchronise(
    home: Path, redis_server: str, django_db_blocker: Any
) -> None:
    with postgres.mortal() as primary, django_db_blocker.unblock(), pointed_at(primary.url):
        call_command("migrate", verbosity=0)
        Phase.objects.create(id="PH-1")
        secret = token("agent")
        environ = {"DATABASE_URL": primary.url, "STATECORE_HOME": str(home), "REDIS_URL": redis_server}
        replica = postgres.Replica(primary)
        replica.start()
        process, listener = sequencer.start(home, **environ), None
        try:
            with running(home, redis_server, **environ) as site, Client(site.url, secret) as client:
                listener = Listener(Client(site.url, secret))
                check_failover(home, client, listener, primary, replica)
        finally:
            sequencer.end(process, signal.SIGKILL)
            replica.stop()
            if listener is not None:
                listener.stop()


def check_failover(
    home: Path,
    client: Client,
    listener: Listener,
    primary: postgres.Mortal,
    replica: postgres.Replica,
) -> None:
    submit(client, "kept")
    until(lambda: listener.has("kept") and count_positions(replica.url) == count_positions(primary.url) > 4)
    kept = count_positions(replica.url)
    replica.stop()

    submit(client, "lost")
    until(lambda: listener.has("lost-t") and read_signed_size(home) > kept)
    lines = [json.loads(line) for line in (home / "transitions.jsonl").read_bytes().splitlines()]
    lost = [line["event_id"] for line in lines if line["position"] > kept]
    last = lines[-1]["position"]
    primary.lose()
    replica.start(sockets=primary.server.pgdata)
    replica.promote()
    connection.close()

    until(lambda: read_epochs(client))
    (epoch,) = read_epochs(client)
    assert (epoch["epoch"], epoch["reason"], epoch["kept"]) == (2, "failover", kept)
    assert [each["event_id"] for each in epoch["lost"]["events"]] == lost
    assert (epoch["lost"]["first"], epoch["lost"]["last"]) == (kept + 1, last)
    assert epoch["lost"]["reports"] == len(lost), "an agent has submitted all of it, and received a confirmation"
    with pytest.raises(NotFound):
        client.get("runs", "lost")

    # A stream continues from where the journal is when it notices the epoch, which takes up to a second.
    until(lambda: listener.ended)
    submit(client, "after")
    until(lambda: listener.has("after-t"))
    assert [(each.epoch, each.kept) for each in listener.ended] == [(2, kept)]
    after = [each for each in listener.received if each.event.entity_id.startswith("after")]
    assert {each.epoch for each in after} == {2}
    assert min(each.position for each in after) <= last, "the number was used before"
    refused = get(client, f"events/?after=1-{last}")
    assert (refused.status_code, refused.json()["code"], refused.json()["kept"]) == (409, "epoch_ended", kept)
    until(lambda: "epoch 2\n" in (home / "checkpoint").read_text() and read_signed_size(home) > kept)
    assert get(client, "events/").json()["epoch"] == get(client, "stats/").json()["epoch"] == 2
