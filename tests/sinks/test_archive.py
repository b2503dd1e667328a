"""Failed workstreams are kept with all that belonged to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statecore.records import SinkCursor
from statecore.sinks.archive import Archive
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


def archived(home: Path) -> dict:
    return json.loads((home / "archive" / "ws-1.json").read_text())


def test_a_failed_workstream_is_kept_with_its_full_state(home: Path) -> None:
    failed_workstream()
    catch_up(Archive())

    kept = archived(home)
    assert kept["workstream"]["state"] == "failed"
    assert [row["id"] for row in kept["tasks"]] == ["t-1"]
    assert [row["id"] for row in kept["gates"]] == ["g-1"]
    assert [row["id"] for row in kept["patches"]] == ["p-1"]
    assert "+++ b" in next(iter(kept["diffs"].values()))
    assert {event["entity_id"] for event in kept["events"]} == {"ws-1", "t-1", "g-1", "p-1"}
    assert kept["events"][-1]["to_state"] == "failed"


def test_one_that_did_not_fail_is_not_kept(home: Path) -> None:
    world.forced(world.workstream(), "cancelled")
    catch_up(Archive())

    assert not (home / "archive").exists()


def test_killed_before_its_cursor_moved_it_writes_the_same_file_again(home: Path) -> None:
    failed_workstream()
    catch_up(Archive())
    before = archived(home)
    (home / "archive" / "ws-1.part").write_text("torn")
    SinkCursor.objects.all().delete()
    catch_up(Archive())

    assert {**archived(home), "archived_at": ""} == {**before, "archived_at": ""}
    assert [path.name for path in (home / "archive").iterdir()] == ["ws-1.json"]
