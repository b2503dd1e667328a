"""Leases of running gates. A runner renews its lease every few seconds; after it expires another runner takes over.

The tests have not failed when a runner is stopped or killed, so no transition takes place: the gate stays RUNNING,
and the next runner runs its command again.
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

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.constraints import is_live
from ..kernel.refusals import Refusal
from ..machines.test_gate import State, TestGate
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import allowed_commands

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=30)
RENEWAL = 10.0
# A command may kill its runner every time. After so many runs the gate is left to its timeout.
MAX_RUNS = 5


def expired_leases() -> Any:
    """Return the gates that an executor started and no longer runs. Gates started by agents have no lease."""
    return _running().filter(abandoned=False, runner_until__lte=now(), attempt__lt=MAX_RUNS)


def past_timeout(grace: timedelta) -> Any:
    """Return the gates past their timeout, except those that will be run again with a new timeout."""
    overdue = _running().filter(times_out_at__lte=now() - grace)
    return overdue.exclude(pk__in=expired_leases().values("pk")) if allowed_commands.are_enabled() else overdue


def _running() -> Any:
    return TestGate.objects.filter(is_live(TestGate.flow.final), state=State.RUNNING)


def acquire(gate_id: str) -> TestGate | None:
    """Start a pending gate or take over an expired lease; return None if another runner was faster."""
    available = Q(state=State.PENDING) | Q(pk__in=expired_leases())
    gate = TestGate.objects.filter(pk=gate_id).filter(available).first()
    if gate is None:
        return None
    return _start(gate_id) if gate.state == State.PENDING else _take_over(gate)


def _start(gate_id: str) -> TestGate | None:
    def step(work: UnitOfWork) -> TestGate:
        outcome = transitions.transition(TestGate, gate_id, "gate_started", actor=THE_SYSTEM, within=work)
        started = cast("TestGate", outcome.entity)
        _leased_row(started).update(runner_until=now() + LEASE, attempt=F("attempt") + 1)
        return cast("TestGate", TestGate.objects.get(pk=gate_id))

    try:
        return run_in_transaction(step)
    except Refusal as refusal:
        log.info("gate_not_started", gate=gate_id, code=refusal.code)
        return None


def _take_over(gate: TestGate) -> TestGate | None:
    """Renew the timeout too: the time that the previous runner used does not count."""
    until = {"runner_until": now() + LEASE, "times_out_at": now() + timedelta(seconds=gate.timeout_sec)}
    if not _leased_row(gate).filter(runner_until=gate.runner_until).update(attempt=F("attempt") + 1, **until):
        return None
    log.warning("gate_run_again", gate=gate.pk, run=gate.attempt + 1)
    return cast("TestGate", TestGate.objects.get(pk=gate.pk))


def is_held(gate: TestGate) -> bool:
    """Whether this runner still holds the lease: the gate has not ended and was not taken over."""
    return bool(_leased_row(gate).exists())


def release(gate: TestGate) -> None:
    """Let the lease expire now, so that the next runner can take over at once."""
    _leased_row(gate).update(runner_until=now())


@contextmanager
def renewing(gate: TestGate) -> Iterator[None]:
    """Renew the lease in a thread for as long as the block runs."""
    is_over = threading.Event()
    renewer = threading.Thread(target=_renew, args=(gate, is_over), daemon=True)
    renewer.start()
    try:
        yield
    finally:
        is_over.set()
        renewer.join()


def _renew(gate: TestGate, is_over: threading.Event) -> None:
    while not is_over.wait(RENEWAL):
        try:
            _leased_row(gate).update(runner_until=now() + LEASE)
        except Error as error:  # a lease lasts for several renewals
            log.warning("gate_not_renewed", gate=gate.pk, error=str(error).strip().partition("\n")[0])
            connection.close()
    connection.close()


def _leased_row(gate: TestGate) -> Any:
    """State and attempt identify the lease: a takeover, a transition or an override changes one of them."""
    return TestGate.objects.filter(pk=gate.pk, state=State.RUNNING, attempt=gate.attempt)
