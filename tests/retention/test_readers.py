"""Requests for archived events name the archive file; all other requests are answered as before."""

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

from statecore.delivery.live.hub import Hub
from statecore.delivery.live.ring import PositionTooOld
from statecore.delivery.sinks import workstream_archive
from statecore.journal import ArchivedRange, Event, EventKind, Position
from statecore.journal.position import head
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.refusals import Archived
from statecore.read_models import history
from statecore.read_models.history import Filters
from tests.dashboard.scene import decode_journal
from tests.retention.past import Past, archive_old_events
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def archived(past: Past) -> str:
    """The id of an archived event."""
    event_id: str = Event.objects.get(entity_id=past.forced.pk, kind=EventKind.OVERRIDE).pk
    archive_old_events()
    return event_id


@pytest.fixture
def admin(client: Client, transactional_db: None) -> Client:
    client.force_login(User.objects.create_superuser("eve"))
    return client


def page(admin: Client, name: str, *args: str, **query: Any) -> str:
    answer = admin.get(reverse(f"console:{name}", args=args), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def api(admin: Client, path: str, status: int = 200, **query: Any) -> Any:
    answer = admin.get(f"/api/v1/{path}", query)
    assert answer.status_code == status, answer.content
    return json.loads(answer.content)


def test_an_entity_page_names_the_file_of_its_archived_events(past: Past, archived: str, admin: Client) -> None:
    whole = page(admin, "entity", "tasks", past.ended.pk)
    part = page(admin, "entity", "uet-workers", past.live.pk)

    file = ArchivedRange.objects.get().file
    assert f"Events 1 to {past.ended.version} were archived" in whole
    assert "Events 1 to 2 were archived" in part
    assert file in whole
    assert file in part
    assert "data-archived" not in page(admin, "entity", "tasks", world.task().pk)


def test_an_archived_override_is_still_marked(past: Past, archived: str, admin: Client) -> None:
    assert admin.get(reverse("console:entity", args=["runs", past.forced.pk])).context["was_forced"]
    rows = admin.get(reverse("console:machine", args=["runs"])).context["page"].rows
    assert [row.entity.pk for row in rows if row.is_forced] == [past.forced.pk]


def test_the_proof_of_an_entity_still_verifies(past: Past, archived: str, admin: Client) -> None:
    for collection, entity in (("tasks", past.ended), ("uet-workers", past.live), ("runs", past.forced)):
        content = page(admin, "proof", collection, entity.pk)
        assert "Verified" in content
        assert f"{ArchivedRange.objects.get().file} and earlier files" in content


def test_lists_and_searches_still_find_finished_rows(past: Past, archived: str, admin: Client) -> None:
    def found(**query: Any) -> set[str]:
        rows = admin.get(reverse("console:machine", args=["runs"]), query).context["page"].rows
        return {row.entity.pk for row in rows}

    assert {past.run.pk, past.forced.pk} <= found()
    assert {past.run.pk, past.forced.pk} <= found(order="recent")
    assert found(q="actor:ada") == {past.forced.pk}
    assert past.forced.pk in found(q="actor:operator")
    assert past.forced.pk not in found(q="actor:system")
    assert found(q="channel:console") == {past.forced.pk}


@pytest.mark.parametrize("name", ["audit", "overrides"])
def test_the_journal_page_names_the_archive_file(past: Past, archived: str, admin: Client, name: str) -> None:
    content = page(admin, name)
    assert f"Events up to position {past.upto} were archived" in content
    assert ArchivedRange.objects.get().file in content


def test_the_audit_verifies_and_time_filters_find_the_remaining_events(
    past: Past, archived: str, admin: Client
) -> None:
    assert "Recent events verified" in page(admin, "audit_verify")
    left = set(Position.objects.values_list("position", flat=True))
    for since in (now() - timedelta(days=400), past.at):
        content = history.read_page(Filters(since=since), limit=500).events
        assert {each["position"] for each in content} == left
    assert history.read_page(Filters(until=now() - timedelta(days=400))).events == []


def test_a_receipt_of_an_archived_event_names_the_file(past: Past, archived: str, admin: Client) -> None:
    answer = admin.get(reverse("console:receipt", args=[archived]))

    assert answer.status_code == 404
    assert ArchivedRange.objects.get().file in answer.content.decode()


def test_a_run_is_replayed_from_its_anchors(past: Past, archived: str, admin: Client) -> None:
    assert "The replay starts after them" in page(admin, "run", past.run.pk)

    content = json.loads(admin.get(reverse("console:run_journal", args=[past.run.pk])).content)

    states = {part: state for part, _at, state in decode_journal(content)}
    assert states[f"task {past.ended.pk}"] == past.ended.state
    assert states[f"run {past.run.pk}"] == past.run.state


def test_a_past_run_is_returned_unless_its_events_are_archived(past: Past, archived: str, admin: Client) -> None:
    after = api(admin, f"runs/{past.run.pk}/at/", time=rfc3339(past.at))
    refused = api(admin, f"runs/{past.run.pk}/at/", 410, time=rfc3339(past.ended.created_at))
    before = api(admin, f"runs/{past.run.pk}/at/", 404, time=rfc3339(past.run.created_at - timedelta(days=1)))

    assert after["run"]["state"] == past.run.state
    assert [task["state"] for task in after["tasks"]] == [past.ended.state]
    assert after["tasks"][0]["version"] == past.ended.version
    assert (refused["code"], refused["file"]) == ("archived", ArchivedRange.objects.get().file)
    assert before["code"] == "not_found"


def test_the_api_names_the_file_of_an_archived_history(past: Past, archived: str, admin: Client) -> None:
    whole = api(admin, f"tasks/{past.ended.pk}/transitions/")
    part = api(admin, f"uet-workers/{past.live.pk}/transitions/")

    assert whole["results"] == []
    assert whole["archived"]["upto_sequence"] == past.ended.version
    assert whole["archived"]["file"] == ArchivedRange.objects.get().file
    assert [event["sequence"] for event in part["results"]] == [3]
    assert part["archived"]["upto_sequence"] == 2
    assert api(admin, f"tasks/{world.task().pk}/transitions/")["archived"] is None
    assert api(admin, f"tasks/{past.ended.pk}/")["state"] == past.ended.state


def test_a_reader_that_resumes_in_the_archived_range_is_refused(past: Past, archived: str, admin: Client) -> None:
    events = api(admin, "events/")
    refused = api(admin, "events/", 410, after=3)

    assert events["archived_upto"] == past.upto
    assert [each["position"] for each in events["results"]] == list(range(past.upto + 1, head() + 1))
    assert (refused["code"], refused["archived_upto"]) == ("archived", past.upto)
    assert api(admin, "events/", after=past.upto)["results"] == events["results"]
    assert api(admin, "events/", before=past.upto, ordering="-position")["results"] == []
    assert api(admin, "audit/verify/", after=0)["ok"]
    assert api(admin, "audit/verify/", entity_type="task", entity=past.ended.pk)["ok"]


def test_a_stream_does_not_reach_back_to_archived_events(past: Past, archived: str) -> None:
    async def can_reach_back(*positions: int) -> list[bool]:
        hub = Hub()
        async with hub.watch():
            return [await reaches_back(hub, position) for position in positions]

    async def reaches_back(hub: Hub, position: int) -> bool:
        try:
            await hub.load_back_to(position)
        except PositionTooOld:
            return False
        return hub.ring.start <= position

    try:
        assert asyncio.run(can_reach_back(past.upto, past.upto - 1, 0)) == [True, False, False]
    finally:
        connections.close_all()


def test_a_workstream_archive_lists_its_archived_events(past: Past, archived: str) -> None:
    content = workstream_archive.collect_workstream(past.ended.workstream_id, head())

    assert {"entity_type": "task", "entity_id": past.ended.pk, "upto": past.ended.version}.items() <= next(
        each for each in content["archived"] if each["entity_id"] == past.ended.pk
    ).items()


def test_a_refusal_names_the_file(past: Past, archived: str) -> None:
    with pytest.raises(Archived, match="events-000000000001"):
        history.get_run_at(past.run.pk, past.ended.created_at)
