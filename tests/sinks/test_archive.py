"""Failed workstreams are archived with their tasks, gates, patches and events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statecore.delivery.sinks.workstream_archive import WorkstreamArchive
from statecore.records import SinkCursor
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


def failed_workstream() -> object:
    workstream = world.workstream(id="ws-1")
    world.task(workstream=workstream, id="t-1")
    world.gate(workstream=workstream, id="g-1")
    world.patch(workstream=workstream, id="p-1")
    world.task(id="t-of-another")
    return world.forced(workstream, "failed")


def read_archive(home: Path) -> dict:
    return json.loads((home / "archive" / "ws-1.json").read_text())


@pytest.mark.usefixtures("machines_in_isolation")
def test_a_failed_workstream_is_archived_with_its_full_state(home: Path) -> None:
    failed_workstream()
    catch_up(WorkstreamArchive())

    content = read_archive(home)
    assert content["workstream"]["state"] == "failed"
    assert [row["id"] for row in content["tasks"]] == ["t-1"]
    assert [row["id"] for row in content["gates"]] == ["g-1"]
    assert [row["id"] for row in content["patches"]] == ["p-1"]
    assert "+++ b" in next(iter(content["diffs"].values()))
    assert {event["entity_id"] for event in content["events"]} == {"ws-1", "t-1", "g-1", "p-1"}
    assert content["events"][-1]["to_state"] == "failed"


def test_a_cancelled_workstream_is_not_archived(home: Path) -> None:
    world.forced(world.workstream(), "cancelled")
    catch_up(WorkstreamArchive())

    assert not (home / "archive").exists()


def test_an_interrupted_delivery_writes_the_same_file_again(home: Path) -> None:
    failed_workstream()
    catch_up(WorkstreamArchive())
    before = read_archive(home)
    (home / "archive" / "ws-1.part").write_text("torn")
    SinkCursor.objects.all().delete()
    catch_up(WorkstreamArchive())

    assert {**read_archive(home), "archived_at": ""} == {**before, "archived_at": ""}
    assert [path.name for path in (home / "archive").iterdir()] == ["ws-1.json"]
