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
    headers = bearer()
    first = world.run()
    only = {"after": 0, "run": first.pk, "entity_type": ["run", "workstream"]}
    with (
        Viewer(web.ws, headers) as viewer,
        Viewer(web.ws, headers, after=0) as from_the_start,
        Viewer(web.ws, headers, **only) as choosy,
        Viewer(web.ws, headers, after=999_999) as lost,
    ):
        viewers = (viewer, from_the_start, choosy, lost)
        until(lambda: all(each.of_type("hello") for each in viewers) and head() == 4)
        begin = viewer.of_type("hello")[0]["position"]
        runs(40)
        world.workstream()
        world.task(workstream=world.workstream(run=first))
        until(lambda: viewer.positions == [*range(begin + 1, head() + 1)])
        until(lambda: from_the_start.positions == [*range(1, head() + 1)])
        until(lambda: len(choosy.positions) == 2)
        until(lambda: lost.positions[-1:] == [head()])
    told = [each["event"] for message in choosy.of_type("events") for each in message["events"]]
    assert [event["entity_type"] for event in told] == ["run", "workstream"]
    assert {event["context"]["run_id"] for event in told} == {first.pk}
    assert [message["type"] for message in lost.messages[:2]] == ["hello", "resnapshot"]
    frames = [at for at, message in zip(viewer.times, viewer.messages, strict=True) if message["type"] == "events"]
    assert all(later - sooner > 0.2 for sooner, later in pairwise(frames))


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
