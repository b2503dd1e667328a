"""Clients that race over HTTP against a real server: exactly one wins, and the others get the reason."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from statecore.journal import Event
from statecore.machines.task import Task
from tests.api import server
from tests.api.callers import Caller
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)

CLIENTS, ROUNDS = 4, 5


@pytest.fixture
def address(redis_server: str, tmp_path: Path, transactional_db: None) -> Iterator[str]:
    with server.running(redis_server, tmp_path / "server.log") as found:
        yield found


def race(address: str, deeds: list[tuple[Caller, str, Any]]) -> list[httpx.Response]:
    """Makes all calls at the same moment, each on its own open connection."""
    barrier = threading.Barrier(len(deeds), timeout=60)

    def do(caller: Caller, path: str, body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {caller.text}"}
        with httpx.Client(base_url=f"{address}/api/v1/", headers=headers, timeout=60) as client:
            client.get("schema/")
            barrier.wait()
            return client.post(path, json=body)

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(lambda deed: do(*deed), deeds))


def codes(responses: list[httpx.Response]) -> Counter[Any]:
    return Counter((response.status_code, response.json().get("code")) for response in responses)


def test_one_of_several_racing_moves_wins(address: str) -> None:
    callers = [Caller() for _ in range(CLIENTS)]
    for _ in range(ROUNDS):
        job = world.created("PipelineJob").pk
        path, body = f"pipeline-jobs/{job}/transitions/", {"trigger": "analyze"}
        answer = race(address, [(caller, path, body) for caller in callers])
        assert codes(answer) == {(200, None): 1, (409, "already_in_state"): CLIENTS - 1}
        assert Event.objects.filter(entity_id=job).count() == 2


def test_the_same_request_sent_by_several_at_once_is_one_change_and_one_answer(address: str) -> None:
    caller = Caller()
    for number in range(ROUNDS):
        body = {"request_id": f"k{number}", "profile": "x"}
        answer = race(address, [(caller, "pipeline-jobs/", body)] * CLIENTS)
        assert {response.status_code for response in answer} == {201}
        assert len({response.json()["id"] for response in answer}) == 1
        assert sum("Idempotent-Replayed" in response.headers for response in answer) == CLIENTS - 1


def test_no_task_is_claimed_twice(address: str) -> None:
    parent, callers = world.workstream(), [Caller() for _ in range(CLIENTS)]
    wanted = {world.queued_task(workstream=parent).pk for _ in range(2 * CLIENTS)}
    workers = [world.idle_worker(max_concurrent_tasks=2).pk for _ in callers]
    deeds = [(caller, f"workers/{worker}/claim/", {}) for caller, worker in zip(callers, workers, strict=True)]
    claimed = [task["id"] for response in race(address, deeds) for task in response.json()["tasks"]]
    assert 0 < len(claimed) == len(set(claimed))
    assert set(claimed) <= wanted
    assert Task.objects.filter(state="running").count() == len(claimed)
