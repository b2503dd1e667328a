"""A process killed at any moment of a transition has stored all of it, or nothing."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from statecore.journal import Event, IdempotencyRecord
from statecore.kernel import registry
from statecore.operations import integrity
from statecore.records import ApprovalDecision, ForcedStep
from tests.crash import deeds
from tests.races.records import assert_consistent

DEEDS = ("create", "transition", "keyed_transition", "cascade", "override", "approve", "retry", "batch")


def all_rows() -> tuple[Any, ...]:
    """Returns all rows of all machines, all decisions, events and idempotency records."""
    tables = [flow.model for flow in registry.flows()] + [ApprovalDecision, ForcedStep, Event, IdempotencyRecord]
    return tuple(sorted(table.objects.values_list(), key=str) for table in tables)


def assert_all_consistent() -> None:
    for flow in registry.flows():
        for entity in flow.model.objects.all():
            assert_consistent(entity)
    assert integrity.check_all() == []


def new_events(deed: str) -> int:
    # An approval is recorded beside the override that it permits.
    return {"cascade": 2, "approve": 2, "batch": len(deeds.BATCH)}.get(deed, 1)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_kill_before_any_statement_leaves_nothing(nursery, deed) -> None:
    before = all_rows()

    for statement in count(1):
        victim = nursery.victim(deed, statement=statement)
        if victim.wait_for("paused", "done") == "done":
            victim.remaining_lines()
            break
        victim.kill()
        assert all_rows() == before

    assert statement > 1, "there were moments to be killed at"
    assert Event.objects.count() == len(before[-2]) + new_events(deed)
    assert_all_consistent()


@pytest.mark.parametrize("deed", DEEDS)
def test_a_kill_between_the_write_and_the_commit_leaves_nothing(nursery, deed) -> None:
    before = all_rows()
    victim = nursery.victim(deed, moment="written")
    victim.wait_for("paused")

    victim.kill()

    assert all_rows() == before
    getattr(deeds, deed)()  # no lock is left behind
    assert Event.objects.count() == len(before[-2]) + new_events(deed)
    assert_all_consistent()


@pytest.mark.parametrize("deed", DEEDS)
def test_a_kill_right_after_the_commit_loses_nothing(nursery, deed) -> None:
    events = Event.objects.count()
    victim = nursery.victim(deed, moment="committed")
    victim.wait_for("paused")

    victim.kill()

    assert Event.objects.count() == events + new_events(deed)
    assert_all_consistent()


def test_a_request_killed_before_its_commit_may_be_sent_again(nursery) -> None:
    victim = nursery.victim("keyed_transition", moment="written")
    victim.wait_for("paused")
    victim.kill()

    deeds.keyed_transition()
    deeds.keyed_transition()

    assert assert_consistent(deeds.model("uet_worker").objects.get(pk="one")).version == 3
    assert IdempotencyRecord.objects.get().response["event"]["version"] == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_kill_at_a_random_moment_loses_no_confirmed_transition(nursery, seed) -> None:
    moments = random.Random(seed)
    told_done = 0
    for _life in range(6):
        victim = nursery.victim("there_and_back", times=10**6)
        words = [victim.read_line() for _ in range(moments.randint(1, 120))]
        words += victim.kill()
        told_done += words.count("done")
        one = assert_consistent(deeds.model("uet_worker").objects.get(pk="one"))
        # The last commit may have succeeded without a report.
        assert told_done <= one.version - 2 <= told_done + 1
        told_done = one.version - 2

    deeds.there_and_back()
    assert_all_consistent()
    assert assert_consistent(one).version == told_done + 3
