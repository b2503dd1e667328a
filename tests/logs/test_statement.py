"""The single statement of a repeated call has the same effect and the same checks as the plain path."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore.records import LogChunk, TaskLog
from statecore.records.token import Token
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.logs.writing import read_texts, start_task, write
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Caller:
    caller = Caller(name="agent-1")
    start_task(caller)
    return caller


def test_a_repeated_call_is_one_statement(agent: Caller, django_assert_num_queries: Any) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite uses the plain path only")
    write(agent, "first")
    with django_assert_num_queries(1):
        assert expect_ok(write(agent, "second", "third", offset=1)) == {"next": 4}
    assert read_texts(agent) == ["first", "second", "third"]


def test_both_paths_leave_the_same_rows() -> None:
    columns = ("attempt", "first", "last", "body", "size")
    found = []
    for name, offsets in (("plain", True), ("fast", False)):
        agent = Caller(name=f"agent-{name}")
        start_task(agent, name)
        for number in range(3):
            # An idempotency key always takes the plain path.
            more = {"request_id": f"k{number}"} if offsets else {}
            expect_ok(write(agent, "a", f"b{number}", task=name, offset=2 * number, **more))
        log = TaskLog.objects.values_list("attempt", "first", "next", "size").get(task_id=name)
        found.append((log, list(LogChunk.objects.filter(task_id=name).order_by("last").values_list(*columns))))
    assert found[0] == found[1]


def test_every_refusal_is_the_same_after_a_first_call(agent: Caller, settings: Any) -> None:
    write(agent, "a")
    assert expect_refusal(write(agent, "x", offset=5), 409, "log_gap")["offset"] == 1
    assert expect_ok(write(agent, "a", "b", offset=0)) == {"next": 3}
    expect_refusal(write(agent, "x", offset=2**63), 400, "invalid")
    expect_refusal(write(agent, "x", attempt=2), 409, "lease_lost")
    expect_refusal(write(agent, "x", task="missing"), 404, "not_found")
    settings.STATECORE_TASK_LOG_BYTES_PER_SECOND = 1
    while (answer := write(agent, "x" * 500)).status_code == 200:
        pass
    expect_refusal(answer, 429, "log_too_fast")
    settings.STATECORE_TASK_LOG_BYTES_PER_SECOND = 65_536
    Token.objects.filter(name="agent-1").update(revoked_at=world.now())
    expect_refusal(write(agent, "x"), 401, "not_authenticated")


def test_another_agent_is_refused_although_its_token_is_known(agent: Caller) -> None:
    other = Caller(name="agent-2")
    start_task(other, "other")
    expect_ok(write(other, "mine", task="other"))
    expect_refusal(write(other, "not mine"), 403, "not_the_holder")
    assert read_texts(agent) == []
