"""A machine this package has never heard of is explained, listed and counted from its declaration alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from statecore import stuck
from statecore.derive import metrics
from statecore.kernel.flow import Flow
from tests import toy
from tests.support import world


@pytest.fixture(scope="module")
def flow(django_db_setup: None, django_db_blocker: Any) -> Iterator[Flow]:
    with django_db_blocker.unblock(), toy.in_the_database() as found:
        yield found


@pytest.fixture
def turnstile(flow: Flow, db: None) -> Any:
    return world.created("Turnstile", id="gate-7")


def said(entity: Any) -> str:
    return stuck.explain(type(entity), entity.pk).sentence


def test_a_state_it_may_rest_in_says_why_that_is_all_right(turnstile: Any, later: Any) -> None:
    later(hours=3)
    assert said(turnstile) == "locked 3 h: nobody has to come"
    assert stuck.stuck(entity_type="turnstile") == []


def test_another_state_says_what_would_move_it_on(turnstile: Any, later: Any) -> None:
    turnstile = world.fire(turnstile, "coin_inserted", coin=2)
    later(minutes=2)
    assert said(turnstile) == "unlocked 2 min: it takes pushed or scrap_ordered"
    (item,) = stuck.stuck(entity_type="turnstile")
    assert (item.entity.pk, item.overdue.total_seconds(), item.recovery.mode) == ("gate-7", 60, "operator")


def test_its_moves_are_judged(turnstile: Any) -> None:
    told = stuck.explain(type(turnstile), "gate-7", actor=world.AGENT).as_dict()["moves"]
    assert [(move["trigger"], move["allowed"], move["needs"]) for move in told] == [
        ("coin_inserted", True, ["coin"]),
        ("scrap_ordered", False, []),
    ]


def test_it_is_counted(turnstile: Any) -> None:
    assert ("turnstile", "locked") in {(entity_type, state) for entity_type, state, _count in metrics.states()}


def test_nothing_is_done_about_it(turnstile: Any, later: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=2)
    later(days=1)
    assert stuck.recover_stalled() == 0
