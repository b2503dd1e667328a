"""Many callers at once: one probe, and no failure is lost."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from statecore.kernel.actors import Actor
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.scheduling import breakers
from tests.races.records import is_whole, path
from tests.support import world
from tests.support.together import together

pytestmark = pytest.mark.django_db(transaction=True)
CROWD, EACH = 8, 5


def callers():
    return [Actor.agent(f"agent-{number}") for number in range(CROWD)]


def asks(actor):
    return lambda: breakers.acquire("aider", actor=actor)


def fails(actor, times=1):
    def deed():
        for _ in range(times):
            breakers.report("aider", success=False, error="it crashed", actor=actor)

    return deed


def cooled_down():
    world.created("CircuitBreaker", id="aider", failure_threshold=1)
    fails(callers()[0])()
    CircuitBreaker.objects.update(opened_at=now() - timedelta(minutes=2))


def test_a_first_use_by_many_makes_one_breaker() -> None:
    answers = together([asks(actor) for actor in callers()])
    assert not any(getattr(answer, "is_probe", True) for answer in answers)
    assert path(is_whole(CircuitBreaker.objects.get())) == [("created", "CLOSED")]


@pytest.mark.parametrize("number", range(5))
def test_of_many_callers_exactly_one_gets_the_probe(number: int) -> None:
    cooled_down()
    answers = together([asks(actor) for actor in callers()])
    assert Counter(getattr(answer, "code", "probe") for answer in answers) == {"probe": 1, "breaker_open": CROWD - 1}
    assert path(is_whole(CircuitBreaker.objects.get()))[-1] == ("cooldown_expires", "HALF_OPEN")


def test_no_failure_is_lost() -> None:
    world.created("CircuitBreaker", id="aider", failure_threshold=1000)
    assert set(together([fails(actor, EACH) for actor in callers()])) == {None}
    assert CircuitBreaker.objects.get().failure_count == CROWD * EACH


def test_the_last_of_many_failures_opens_it_once() -> None:
    world.created("CircuitBreaker", id="aider", failure_threshold=CROWD * EACH)
    assert set(together([fails(actor, EACH) for actor in callers()])) == {None}
    breaker = is_whole(CircuitBreaker.objects.get())
    assert path(breaker) == [("created", "CLOSED"), ("failure_threshold_exceeded", "OPEN")]
    assert breaker.failure_count == CROWD * EACH


def test_two_sweeps_at_once_half_open_it_once() -> None:
    cooled_down()
    assert sum(together([breakers.cool_down] * 4)) == 1
    assert path(is_whole(CircuitBreaker.objects.get()))[-1] == ("cooldown_expires", "HALF_OPEN")
