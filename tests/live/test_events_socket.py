"""The event socket delivers every event once and in order, even across a server crash."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from statecore.journal.position import head
from tests.live.viewer import Viewer
from tests.support import world
from tests.support.waiting import until
from tests.support.web import Web, bearer, running

pytestmark = pytest.mark.django_db(transaction=True)


def create_runs(count: int) -> None:
    phase = world.phase()
    for _ in range(count):
        world.run(phase=phase)


def wait_for_head(count: int) -> None:
    until(lambda: head() == count)


def test_events_arrive_in_order_and_paced(web: Web) -> None:
    create_runs(3)
    wait_for_head(3)
    headers = bearer()
    first = world.run()
    only = {"after": 0, "run": first.pk, "entity_type": ["run", "workstream"]}
    with (
        Viewer(web.ws, headers) as viewer,
        Viewer(web.ws, headers, after=0) as from_the_start,
        Viewer(web.ws, headers, **only) as filtered,
        Viewer(web.ws, headers, after=999_999) as lost,
    ):
        viewers = (viewer, from_the_start, filtered, lost)
        until(lambda: all(each.of_type("hello") for each in viewers) and head() == 4)
        begin = viewer.of_type("hello")[0]["position"]
        create_runs(40)
        world.workstream()
        world.task(workstream=world.workstream(run=first))
        until(lambda: viewer.positions == [*range(begin + 1, head() + 1)])
        until(lambda: from_the_start.positions == [*range(1, head() + 1)])
        until(lambda: len(filtered.positions) == 2)
        until(lambda: lost.positions[-1:] == [head()])
    events = [each["event"] for message in filtered.of_type("events") for each in message["events"]]
    assert [event["entity_type"] for event in events] == ["run", "workstream"]
    assert {event["context"]["run_id"] for event in events} == {first.pk}
    assert [message["type"] for message in lost.messages[:2]] == ["hello", "resnapshot"]
    frames = [at for at, message in zip(viewer.times, viewer.messages, strict=True) if message["type"] == "events"]
    assert all(later - sooner > 0.2 for sooner, later in pairwise(frames))


def test_a_killed_and_restarted_server_leaves_no_gap_and_no_duplicate(web: Web, home: Path, redis_server: str) -> None:
    with Viewer(web.ws, bearer(), after=0) as viewer:
        create_runs(5)
        until(lambda: len(viewer.positions) == 5)
        web.end(signal.SIGKILL)
        create_runs(5)
        wait_for_head(10)
        with running(home, web.port, REDIS_URL=redis_server):
            create_runs(5)
            until(lambda: viewer.positions == [*range(1, 16)])
    assert viewer.connects >= 2
    assert not viewer.of_type("resnapshot")
