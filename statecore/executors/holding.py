"""Whoever runs a gate says so every few seconds; one that nobody speaks for any more is run again.

A gate that runs can only pass or fail, and a runner that was stopped or killed is no failure of the tests. So there is
no move to make: the gate stays RUNNING, and the next runner goes on in the place of the one that is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import structlog
from django.db import Error, connection
from django.db.models import F, Q

from .. import door
from ..door.perform import perform
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.indexes import is_live
from ..kernel.refusals import Refusal
from ..machines.test_gate import State, TestGate
from . import allowed

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=30)
RENEWAL = 10.0
# A command that takes its runner down with it every time is not run for ever: then its time runs out.
MOST_RUNS = 5


def left_behind() -> Any:
    """Gates that a runner of ours has started and that nobody runs. What an agent has started is the agent's."""
    return _running().filter(abandoned=False, runner_until__lte=now(), attempt__lt=MOST_RUNS)


def overdue(at_the_latest: timedelta) -> Any:
    """Gates past their time, but for those that will be run again and then have it anew."""
    over = _running().filter(times_out_at__lte=now() - at_the_latest)
    return over.exclude(pk__in=left_behind().values("pk")) if allowed.are_on() else over


def _running() -> Any:
    return TestGate.objects.filter(is_live(TestGate.flow.final), state=State.RUNNING)


def take(gate_id: str) -> TestGate | None:
    """Start the gate, or go on with one that was left behind; None where another runner has it."""
    gate = TestGate.objects.filter(pk=gate_id).filter(Q(state=State.PENDING) | Q(pk__in=left_behind())).first()
    if gate is None:
        return None
    return _start(gate_id) if gate.state == State.PENDING else _take_over(gate)


def _start(gate_id: str) -> TestGate | None:
    def step() -> TestGate:
        started = cast("TestGate", door.transition(TestGate, gate_id, "gate_started", actor=THE_SYSTEM).entity)
        _ours(started).update(runner_until=now() + LEASE, attempt=F("attempt") + 1)
        return cast("TestGate", TestGate.objects.get(pk=gate_id))

    try:
        return perform(step)
    except Refusal as refusal:
        log.info("gate_not_started", gate=gate_id, code=refusal.code)
        return None


def _take_over(gate: TestGate) -> TestGate | None:
    """With all of its time: what the one before used of it says nothing about the tests."""
    until = {"runner_until": now() + LEASE, "times_out_at": now() + timedelta(seconds=gate.timeout_sec)}
    if not _ours(gate).filter(runner_until=gate.runner_until).update(attempt=F("attempt") + 1, **until):
        return None
    log.warning("gate_run_again", gate=gate.pk, run=gate.attempt + 1)
    return cast("TestGate", TestGate.objects.get(pk=gate.pk))


def is_held(gate: TestGate) -> bool:
    """Whether it still is this runner's: neither taken over nor ended."""
    return bool(_ours(gate).exists())


def give_back(gate: TestGate) -> None:
    """For the next runner to take at once."""
    _ours(gate).update(runner_until=now())


@contextmanager
def held(gate: TestGate) -> Iterator[None]:
    over = threading.Event()
    speaker = threading.Thread(target=_speak_for, args=(gate, over), daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def _speak_for(gate: TestGate, over: threading.Event) -> None:
    while not over.wait(RENEWAL):
        try:
            _ours(gate).update(runner_until=now() + LEASE)
        except Error as error:  # the next time, then: there are several before anybody else takes it
            log.warning("gate_not_renewed", gate=gate.pk, error=str(error).strip().partition("\n")[0])
            connection.close()
    connection.close()


def _ours(gate: TestGate) -> Any:
    same = {"version": gate.version, "attempt": gate.attempt}
    return TestGate.objects.filter(pk=gate.pk, state=State.RUNNING, **same)
