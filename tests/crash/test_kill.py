"""A process that is killed at any moment of a change leaves all of it behind, or nothing."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from statecore import integrity
from statecore.journal import Event, IdempotencyRecord
from statecore.kernel import registry
from tests.crash import deeds
from tests.races.records import is_whole

DEEDS = ("create", "transition", "keyed_transition", "cascade", "override", "retry", "batch")


def everything() -> tuple[Any, ...]:
    """All rows of all machines, all events, all kept answers."""
    tables = [flow.model for flow in registry.flows()] + [Event, IdempotencyRecord]
    return tuple(sorted(table.objects.values_list(), key=str) for table in tables)


def all_is_whole() -> None:
    for flow in registry.flows():
        for entity in flow.model.objects.all():
            is_whole(entity)
    assert integrity.check_all() == []


def new_events(deed: str) -> int:
    return {"cascade": 2, "batch": len(deeds.BATCH)}.get(deed, 1)


@pytest.mark.parametrize("deed", DEEDS)
def test_killed_before_any_statement_of_a_change_it_left_nothing(nursery, deed) -> None:
    before = everything()

    for statement in count(1):
        victim = nursery.victim(deed, statement=statement)
        if victim.until("stands", "done") == "done":
            victim.last_words()
            break
        victim.kill()
        assert everything() == before

    assert statement > 1, "there were moments to be killed at"
    assert Event.objects.count() == len(before[-2]) + new_events(deed)
    all_is_whole()


@pytest.mark.parametrize("deed", DEEDS)
def test_killed_between_the_write_and_the_commit_it_left_nothing(nursery, deed) -> None:
    before = everything()
    victim = nursery.victim(deed, moment="written")
    victim.until("stands")

    victim.kill()

    assert everything() == before
    getattr(deeds, deed)()  # nothing is locked, and nothing stands in its way
    assert Event.objects.count() == len(before[-2]) + new_events(deed)
    all_is_whole()


@pytest.mark.parametrize("deed", DEEDS)
def test_killed_right_after_the_commit_it_left_all_of_it(nursery, deed) -> None:
    events = Event.objects.count()
    victim = nursery.victim(deed, moment="committed")
    victim.until("stands")

    victim.kill()

    assert Event.objects.count() == events + new_events(deed)
    all_is_whole()


def test_a_request_killed_before_its_commit_may_be_sent_again(nursery) -> None:
    victim = nursery.victim("keyed_transition", moment="written")
    victim.until("stands")
    victim.kill()

    deeds.keyed_transition()
    deeds.keyed_transition()

    assert is_whole(deeds.model("uet_worker").objects.get(pk="one")).version == 3
    assert IdempotencyRecord.objects.get().response["event"]["version"] == 3


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_it_lost_nothing_it_was_told_was_done(nursery, seed) -> None:
    moments = random.Random(seed)
    told_done = 0
    for _life in range(6):
        victim = nursery.victim("there_and_back", times=10**6)
        words = [victim.says() for _ in range(moments.randint(1, 120))]
        words += victim.kill()
        told_done += words.count("done")
        one = is_whole(deeds.model("uet_worker").objects.get(pk="one"))
        # The last commit may have come through without anybody being told.
        assert told_done <= one.version - 2 <= told_done + 1
        told_done = one.version - 2

    deeds.there_and_back()
    all_is_whole()
    assert is_whole(one).version == told_done + 3
