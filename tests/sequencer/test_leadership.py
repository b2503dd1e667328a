"""The lease of the leader: taken once, fenced, lost by a leader that hangs, and left to the next one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from statecore.delivery.sequencer import Sequencer
from statecore.delivery.sinks.counters import Counters
from statecore.journal import Position
from statecore.project.leading_beat import STANDBY_SECONDS, LeadingScheduler
from statecore.records import LeaderLease, StateCount
from statecore.records.leader_lease import Leadership, LeadershipLost, find_leader
from statecore.storage import host
from statecore.task_queue import app
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


def expire(**values: object) -> None:
    LeaderLease.objects.update(expires_at=Now(), **values)


def leading() -> Sequencer:
    """A sequencer that leads in place of an earlier one, which has not noticed it."""
    LeaderLease.objects.update(expires_at=Now())
    made = Sequencer([Counters()])
    assert made.leadership.acquire()
    made.take_over()
    return made


def test_one_process_leads_until_it_releases_the_lease() -> None:
    first, second = Leadership("beat"), Leadership("beat")
    assert (first.acquire(), second.acquire()) == (True, False)
    assert find_leader("beat").pid == os.getpid()

    first.release()
    assert find_leader("beat") is None
    assert second.acquire()
    assert second.term == 2


def test_a_lease_that_expired_goes_to_the_next_one_and_the_former_leader_may_write_nothing() -> None:
    first, second = Leadership("beat"), Leadership("beat")
    first.acquire()
    expire()
    with first.fenced():
        pass  # no other process has taken it
    assert second.acquire()

    with pytest.raises(LeadershipLost), first.fenced():
        pass
    assert not first.is_held
    second.check()


def test_a_renewal_keeps_the_lease_and_is_refused_to_a_former_leader() -> None:
    first, second = Leadership("beat"), Leadership("beat")
    first.acquire()
    expire()
    first.renew_at = 0.0
    first.check()
    assert not second.acquire()

    expire(holder="other")
    first.renew_at = 0.0
    with pytest.raises(LeadershipLost):
        first.check()


def test_the_lease_of_a_process_that_has_ended_is_taken_at_once() -> None:
    first, second = Leadership("beat"), Leadership("beat")
    first.acquire()
    gone = next(pid for pid in range(4_000_000, 5_000_000) if not host.process_exists(pid))

    LeaderLease.objects.update(pid=gone, scope="elsewhere")
    assert not second.acquire()
    LeaderLease.objects.update(scope=host.get_scope())
    assert second.acquire()


@pytest.mark.postgres
def test_a_transaction_of_the_leader_is_committed_before_another_process_leads() -> None:
    first, second = Leadership("beat"), Leadership("beat")
    first.acquire()
    expire()
    found: list[bool] = []

    def take() -> None:
        found.append(second.acquire())
        connection.close()

    with first.fenced():
        standby = threading.Thread(target=take)
        standby.start()
        standby.join()
    assert found == [False]


def test_a_former_leader_numbers_and_delivers_nothing() -> None:
    former, current = leading(), leading()
    world.run()

    with pytest.raises(LeadershipLost):
        former.run_round()
    assert (Position.objects.count(), StateCount.objects.count()) == (0, 0)
    current.run_round()
    assert Position.objects.exists()
    with transaction.atomic(), pytest.raises(LeadershipLost):
        former.leadership.check()


def test_a_former_leader_without_a_mark_stores_none() -> None:
    former, current = leading(), leading()
    former.numberer.seen = ""
    with pytest.raises(LeadershipLost):
        former.numberer.number_new_events() or former.leadership.check()
    world.run()
    assert current.numberer.number_new_events() > 0


def test_of_two_beats_one_schedules(tmp_path: Path) -> None:
    first, second = (
        LeadingScheduler(app=app, schedule_filename=str(tmp_path / name), lazy=True) for name in ("one", "two")
    )
    assert (first.leads(), second.leads(), second.tick()) == (True, False, STANDBY_SECONDS)

    expire()
    assert (second.leads(), first.leads()) == (True, True)  # as far as it knows, until it renews the lease
    first.leadership.renew_at = 0.0
    assert not first.leads()
