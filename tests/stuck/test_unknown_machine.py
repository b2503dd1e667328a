"""A machine known only by its declaration is explained, listed and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from statecore.kernel.flow import Flow
from statecore.read_models import metrics, stuck
from tests import toy
from tests.support import world


@pytest.fixture(scope="module")
def flow(django_db_setup: None, django_db_blocker: Any) -> Iterator[Flow]:
    with django_db_blocker.unblock(), toy.in_the_database() as found:
        yield found


@pytest.fixture
def turnstile(flow: Flow, db: None) -> Any:
    return world.created("Turnstile", id="gate-7")


def sentence_of(entity: Any) -> str:
    return stuck.explain(type(entity), entity.pk).sentence


def test_a_resting_state_is_explained_with_its_declared_reason(turnstile: Any, later: Any) -> None:
    later(hours=3)
    assert sentence_of(turnstile) == "locked 3 h: a visitor may never come"
    assert stuck.list_stuck(entity_type="turnstile") == []


def test_other_states_name_the_triggers_that_leave_them(turnstile: Any, later: Any) -> None:
    turnstile = world.fire(turnstile, "coin_inserted", coin=2)
    later(minutes=2)
    assert sentence_of(turnstile) == "unlocked 2 min: it waits for pushed or scrap_ordered"
    (item,) = stuck.list_stuck(entity_type="turnstile")
    assert (item.entity.pk, item.overdue.total_seconds(), item.recovery.mode) == ("gate-7", 60, "operator")


def test_its_transitions_are_evaluated(turnstile: Any) -> None:
    transitions = stuck.explain(type(turnstile), "gate-7", actor=world.AGENT).as_dict()["transitions"]
    assert [(each["trigger"], each["allowed"], each["needs"]) for each in transitions] == [
        ("coin_inserted", True, ["coin"]),
        ("scrap_ordered", False, []),
    ]


def test_its_rows_are_counted(turnstile: Any) -> None:
    assert ("turnstile", "locked") in {(entity_type, state) for entity_type, state, _count in metrics.count_entities()}


def test_no_recovery_is_attempted(turnstile: Any, later: Any) -> None:
    world.fire(turnstile, "coin_inserted", coin=2)
    later(days=1)
    assert stuck.recover_stalled() == 0
