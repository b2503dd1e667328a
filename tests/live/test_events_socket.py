"""Every event once and in order, whatever happens to the server, to Redis and to the reader."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from statecore.records.position import head
from tests.live.viewer import Viewer
from tests.support import world
from tests.support.waiting import until
from tests.support.web import Web, bearer, running

pytestmark = pytest.mark.django_db(transaction=True)


def runs(count: int) -> None:
    phase = world.phase()
    for _ in range(count):
        world.run(phase=phase)


def numbered(count: int) -> None:
    until(lambda: head() == count)


def test_events_as_they_are_committed_in_order_and_paced(web: Web) -> None:
    runs(3)
    numbered(3)
    with Viewer(web.ws, bearer()) as viewer, Viewer(web.ws, bearer(name="other"), after=0) as from_the_start:
        until(lambda: viewer.of_type("hello") and from_the_start.of_type("hello"))
        assert viewer.of_type("hello") == [{"type": "hello", "position": 3}]
        runs(40)
        until(lambda: viewer.positions == [*range(4, 44)])
        until(lambda: from_the_start.positions == [*range(1, 44)])
        event = viewer.of_type("events")[-1]["events"][-1]["event"]
        assert (event["entity_type"], event["to_state"]) == ("run", "pending")
    frames = [at for at, message in zip(viewer.times, viewer.messages, strict=True) if message["type"] == "events"]
    assert all(later - sooner > 0.2 for sooner, later in pairwise(frames))


def test_only_what_was_asked_for(web: Web) -> None:
    first, second = world.run(), world.run()
    with Viewer(web.ws, bearer(), after=0, run=first.pk, entity_type=["run", "workstream"]) as viewer:
        world.workstream(run=first)
        world.workstream(run=second)
        world.task(workstream=world.workstream(run=first))
        numbered(6)
        until(lambda: len(viewer.positions) == 3)
    told = [each["event"] for message in viewer.of_type("events") for each in message["events"]]
    assert {event["context"]["run_id"] for event in told} == {first.pk}
    assert {event["entity_type"] for event in told} == {"run", "workstream"}


def test_a_server_that_is_killed_and_comes_back_leaves_no_gap_and_nothing_twice(
    web: Web, home: Path, redis_server: str
) -> None:
    with Viewer(web.ws, bearer(), after=0) as viewer:
        runs(5)
        until(lambda: len(viewer.positions) == 5)
        web.end(signal.SIGKILL)
        runs(5)
        numbered(10)
        with running(home, web.port, REDIS_URL=redis_server):
            runs(5)
            until(lambda: viewer.positions == [*range(1, 16)])
    assert viewer.connects >= 2
    assert not viewer.of_type("resnapshot")


def test_a_position_that_is_too_old_or_from_elsewhere_is_told_to_read_anew(web: Web) -> None:
    runs(2)
    numbered(2)
    with Viewer(web.ws, bearer(), after=999_999) as viewer:
        until(lambda: viewer.of_type("resnapshot"))
        assert viewer.messages[:2] == [{"type": "hello", "position": 2}, {"type": "resnapshot", "position": 2}]
        runs(1)
        until(lambda: viewer.positions == [3])
