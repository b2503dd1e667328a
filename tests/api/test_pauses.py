"""Pausing a run over REST pauses its workstreams."""

from __future__ import annotations

from datetime import timedelta

import pytest

from statecore.kernel.clock import now, rfc3339
from statecore.machines.workstream import Workstream
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.work.agents import states, submit, workstream

pytestmark = pytest.mark.django_db


def test_a_run_is_paused_until_a_time_and_resumed() -> None:
    submit(workstream("w", "t"))
    ada, until = Caller("operate"), rfc3339(now() + timedelta(hours=1))
    answer = expect_ok(ada.post("runs/r/pause/", {"reason": "upgrade", "until": until}))
    assert (answer["changed"], answer["entity"]["id"]) == (True, "r")
    (paused,) = answer["workstreams"]
    assert (paused["id"], paused["event"]["to_state"], paused["event"]["reason"]) == ("w", "paused", "upgrade")
    assert expect_ok(ada.get("workstreams/w/"))["paused_until"] == until
    expect_refusal(ada.post("runs/r/pause/", {"reason": "again"}), 409, "guard_failed")
    expect_ok(ada.post("runs/r/resume/", {"reason": "done"}))
    assert states(Workstream) == {"w": "ready"}


def test_agents_pause_nothing_and_an_unknown_run_is_not_found() -> None:
    submit(workstream("w", "t"))
    expect_refusal(Caller("agent").post("runs/r/pause/", {"reason": "no"}), 403, "permission_denied")
    expect_refusal(Caller("operate").post("runs/none/pause/", {"reason": "no"}), 404, "not_found")
    assert states(Workstream) == {"w": "ready"}
