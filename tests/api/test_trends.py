"""Trends over REST: the roll-ups of what the caller may see."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.core.cache import cache

from statecore.delivery.sinks.trends import Trends
from statecore.kernel.clock import now
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.api.test_rights import plain_user
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


def test_trends_of_a_caller_have_the_machines_that_it_may_see() -> None:
    cache.clear()
    world.forced(world.queued_task(required_capabilities=["git"]), "failed")
    catch_up(Trends())
    with time_machine.travel(now() + timedelta(minutes=1)):  # the current minute is not shown
        found = expect_ok(Caller("read").get("trends/?entity_type=task"))
    panels = {panel["name"]: panel for panel in found["panels"]}
    assert (panels["failures"]["total"], panels["overrides"]["total"]) == (1, 1)
    assert len(panels["failures"]["lines"][0]["values"]) in (96, 97)
    few = Caller("read", user=plain_user("ada", "view_run"))
    assert {each["name"] for each in expect_ok(few.get("trends/"))["panels"]} == {
        "throughput", "failures", "overrides", "stuck"
    }  # fmt: skip
    expect_refusal(few.get("trends/?entity_type=task"), 403, "permission_denied")
    expect_refusal(few.get("trends/?capability=git"), 403, "permission_denied")
    for wrong in ("range=2y", "since=2026-01-01T00:00:00Z", "entity_type=task&capability=git", "entity_type=x"):
        expect_refusal(Caller("read").get(f"trends/?{wrong}"), 400, "invalid")
