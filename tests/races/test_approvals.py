"""Races for one request for approval: one decision takes effect, and the override is executed at most once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User

from statecore.records import Approval, ApprovalDecision
from tests.races.contest import Call, operator
from tests.races.records import assert_consistent, path
from tests.races.test_races import REASON, fire, force, repeat_race
from tests.support import world

# The processes that race on SQLite run without reactions, so the threads that race on PostgreSQL do too.
pytestmark = pytest.mark.usefixtures("machines_in_isolation")


@pytest.fixture
def ada(transactional_db: None, settings: Any) -> Any:
    settings.STATECORE_SECOND_PERSON = frozenset({"run->succeeded"})
    return operator("ada", User.objects.create_superuser("ada").pk)


def requested(ada: Any) -> tuple[Any, Approval]:
    run = world.fire(world.run(), "run_started")
    world.forced(run, "succeeded", actor=ada, reason=REASON)
    return run, Approval.objects.latest("pk")


def decide(verb: str, made: Approval, number: int) -> Call:
    return Call(verb, "run", (made.pk,), {"actor": operator(f"second-{number}", account=10**6 + number)})


@repeat_race
def test_of_two_approvers_exactly_one_executes(race, crowd, ada) -> None:
    run, made = requested(ada)

    answers = race([decide("approve", made, number) for number in range(crowd)])

    assert Counter(answer.code for answer in answers) == {None: 1, "already_decided": crowd - 1}
    assert path(assert_consistent(run))[-1] == ("manual_override", "succeeded")
    assert run.version + 1 == assert_consistent(run).version
    assert ApprovalDecision.objects.get(approval=made).status == "approved"


@repeat_race
def test_of_an_approval_and_a_denial_one_takes_effect(race, ada) -> None:
    run, made = requested(ada)

    approval, denial = race([decide("approve", made, 1), decide("deny", made, 2)])

    assert {approval.code, denial.code} == {None, "already_decided"}
    assert assert_consistent(run).state == ("succeeded" if approval.won else "running")
    assert ApprovalDecision.objects.get(approval=made).status == ("approved" if approval.won else "denied")


@repeat_race
def test_an_entity_that_moves_at_the_same_moment_is_moved_once(race, ada) -> None:
    run, made = requested(ada)

    approval, forced, fired = race([decide("approve", made, 1), force(run, "failed"), fire(run, "run_canceled")])

    assert sum(answer.won for answer in (approval, forced, fired)) == 1
    row = assert_consistent(run)
    assert row.version == run.version + 1
    assert (row.state == "succeeded") == approval.won
    if not approval.won:
        assert approval.code == "stale_version"
        assert ApprovalDecision.objects.get(approval=made).status == "outdated"
