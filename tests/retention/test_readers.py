"""Whoever asks for something that was retired is told where it is; everything else is answered as before."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.urls import reverse

from statecore import history
from statecore.history import Filters
from statecore.journal import Event, EventKind
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.refusals import Retired
from statecore.live.hub import Hub
from statecore.records import Position, Retirement
from statecore.records.position import head
from statecore.sinks import archive
from tests.retention.past import Past, retired
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gone(past: Past) -> str:
    """The id of an event that is in a file by now."""
    event_id: str = Event.objects.get(entity_id=past.forced.pk, kind=EventKind.OVERRIDE).pk
    retired()
    return event_id


@pytest.fixture
def somebody(client: Client, transactional_db: None) -> Client:
    client.force_login(User.objects.create_superuser("eve"))
    return client


def page(somebody: Client, name: str, *args: str, **query: Any) -> str:
    answer = somebody.get(reverse(f"console:{name}", args=args), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def api(somebody: Client, path: str, status: int = 200, **query: Any) -> Any:
    answer = somebody.get(f"/api/v1/{path}", query)
    assert answer.status_code == status, answer.content
    return json.loads(answer.content)


def test_the_page_of_an_entity_says_where_its_history_is(past: Past, gone: str, somebody: Client) -> None:
    whole = page(somebody, "entity", "tasks", past.ended.pk)
    part = page(somebody, "entity", "uet-workers", past.live.pk)

    file = Retirement.objects.get().file
    assert f"Events 1 to {past.ended.version} were retired" in whole
    assert "Events 1 to 2 were retired" in part
    assert file in whole
    assert file in part
    assert "data-retired" not in page(somebody, "entity", "tasks", world.task().pk)


def test_what_was_forced_long_ago_is_still_marked(past: Past, gone: str, somebody: Client) -> None:
    assert somebody.get(reverse("console:entity", args=["runs", past.forced.pk])).context["was_forced"]
    rows = somebody.get(reverse("console:machine", args=["runs"])).context["page"].rows
    assert [row.entity.pk for row in rows if row.is_forced] == [past.forced.pk]


def test_the_proof_of_an_entity_holds(past: Past, gone: str, somebody: Client) -> None:
    for collection, entity in (("tasks", past.ended), ("uet-workers", past.live), ("runs", past.forced)):
        told = page(somebody, "proof", collection, entity.pk)
        assert "Untampered" in told
        assert f"{Retirement.objects.get().file} and the files before it" in told


def test_lists_and_searches_still_find_what_ended(past: Past, gone: str, somebody: Client) -> None:
    def found(**query: Any) -> set[str]:
        rows = somebody.get(reverse("console:machine", args=["runs"]), query).context["page"].rows
        return {row.entity.pk for row in rows}

    assert {past.run.pk, past.forced.pk} <= found()
    assert {past.run.pk, past.forced.pk} <= found(order="recent")
    assert found(q="actor:ada") == {past.forced.pk}
    assert past.forced.pk in found(q="actor:operator")
    assert past.forced.pk not in found(q="actor:system")
    assert found(q="channel:console") == {past.forced.pk}


@pytest.mark.parametrize("name", ["audit", "overrides"])
def test_the_end_of_the_journal_says_where_the_rest_is(past: Past, gone: str, somebody: Client, name: str) -> None:
    told = page(somebody, name)
    assert f"What happened up to position {past.upto} was retired" in told
    assert Retirement.objects.get().file in told


def test_the_audit_verifies_and_a_search_by_time_finds_what_is_left(past: Past, gone: str, somebody: Client) -> None:
    assert "tampered" not in page(somebody, "audit_verify")
    left = set(Position.objects.values_list("position", flat=True))
    for since in (now() - timedelta(days=400), past.at):
        told = history.page(Filters(since=since), limit=500).events
        assert {each["position"] for each in told} == left
    assert history.page(Filters(until=now() - timedelta(days=400))).events == []


def test_a_receipt_of_something_retired_says_so(past: Past, gone: str, somebody: Client) -> None:
    answer = somebody.get(reverse("console:receipt", args=[gone]))

    assert answer.status_code == 404
    assert Retirement.objects.get().file in answer.content.decode()


def test_a_run_is_replayed_from_where_it_was_left(past: Past, gone: str, somebody: Client) -> None:
    assert "The slider begins where that left each part" in page(somebody, "run", past.run.pk)

    told = json.loads(somebody.get(reverse("console:run_journal", args=[past.run.pk])).content)

    states = {(kind, pk): state for _position, _at, kind, pk, state, _kind in told["events"]}
    assert states["task", past.ended.pk] == past.ended.state
    assert states["run", past.run.pk] == past.run.state
    assert [each[0] for each in told["events"]] == sorted(each[0] for each in told["events"])


def test_a_run_as_it_was_is_told_or_refused(past: Past, gone: str, somebody: Client) -> None:
    after = api(somebody, f"runs/{past.run.pk}/at/", time=rfc3339(past.at))
    refused = api(somebody, f"runs/{past.run.pk}/at/", 410, time=rfc3339(past.ended.created_at))
    before = api(somebody, f"runs/{past.run.pk}/at/", 404, time=rfc3339(past.run.created_at - timedelta(days=1)))

    assert after["run"]["state"] == past.run.state
    assert [task["state"] for task in after["tasks"]] == [past.ended.state]
    assert after["tasks"][0]["version"] == past.ended.version
    assert (refused["code"], refused["file"]) == ("retired", Retirement.objects.get().file)
    assert before["code"] == "not_found"


def test_the_api_tells_where_a_history_is(past: Past, gone: str, somebody: Client) -> None:
    whole = api(somebody, f"tasks/{past.ended.pk}/transitions/")
    part = api(somebody, f"uet-workers/{past.live.pk}/transitions/")

    assert whole["results"] == []
    assert whole["retired"]["upto_sequence"] == past.ended.version
    assert whole["retired"]["file"] == Retirement.objects.get().file
    assert [event["sequence"] for event in part["results"]] == [3]
    assert part["retired"]["upto_sequence"] == 2
    assert api(somebody, f"tasks/{world.task().pk}/transitions/")["retired"] is None
    assert api(somebody, f"tasks/{past.ended.pk}/")["state"] == past.ended.state


def test_who_goes_on_from_what_was_retired_is_told_so(past: Past, gone: str, somebody: Client) -> None:
    everything = api(somebody, "events/")
    refused = api(somebody, "events/", 410, after=3)

    assert everything["retired_upto"] == past.upto
    assert [each["position"] for each in everything["results"]] == list(range(past.upto + 1, head() + 1))
    assert (refused["code"], refused["retired_upto"]) == ("retired", past.upto)
    assert api(somebody, "events/", after=past.upto)["results"] == everything["results"]
    assert api(somebody, "events/", before=past.upto, ordering="-position")["results"] == []
    assert api(somebody, "audit/verify/", after=0)["ok"]
    assert api(somebody, "audit/verify/", entity_type="task", entity=past.ended.pk)["ok"]


def test_a_stream_does_not_reach_back_to_what_was_retired(past: Past, gone: str) -> None:
    async def reaches(*positions: int) -> list[bool]:
        hub = Hub()
        async with hub.watching():
            return [await hub.reach_back(position) for position in positions]

    try:
        assert asyncio.run(reaches(past.upto, past.upto - 1, 0)) == [True, False, False]
    finally:
        connections.close_all()


def test_the_archive_of_a_workstream_says_what_it_lacks(past: Past, gone: str) -> None:
    told = archive.collect(past.ended.workstream_id, head())

    assert {"entity_type": "task", "entity_id": past.ended.pk, "upto": past.ended.version}.items() <= next(
        each for each in told["retired"] if each["entity_id"] == past.ended.pk
    ).items()


def test_a_refusal_names_the_file(past: Past, gone: str) -> None:
    with pytest.raises(Retired, match="retired-000000000001"):
        history.run_at(past.run.pk, past.ended.created_at)
