"""Long-poll claims are woken in order when work arrives, without one thread each."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connections, transaction

from statecore import transitions
from statecore.delivery.live import claim_queue
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.scheduling.matching import find_workers_to_wake
from tests.live.in_process import running_app
from tests.support import world
from tests.support.waiting import until
from tests.support.web import Web, bearer

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


class Poll:
    """A claim over a raw connection: one request, one response."""

    def __init__(self, web: Web, worker: str, headers: dict[str, str], **body: Any) -> None:
        text = json.dumps({"wait": 30, **body}).encode()
        given = {"Host": f"127.0.0.1:{web.port}", "Content-Type": "application/json", "Content-Length": str(len(text))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**given, **headers, "Connection": "close"}.items())
        self.request = f"POST /api/v1/workers/{worker}/claim/ HTTP/1.1\r\n{lines}\r\n".encode() + text
        self.web, self.answer = web, b""

    async def send(self) -> list[str]:
        """Send the claim and return the ids of the tasks."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.web.port)
        writer.write(self.request)
        try:
            self.answer = await reader.read()
        finally:
            writer.close()
        head, _, body = self.answer.partition(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0], self.answer
        if b"chunked" in head:
            body = body.split(b"\r\n")[1]
        return [task["id"] for task in json.loads(body)["tasks"]]

    async def send_until_claimed(self) -> list[str]:
        """Repeat the claim as an agent does; on a busy host early claims may time out before the last begins."""
        while not (found := await self.send()):
            pass
        return found


def threads_of(web: Web) -> int:
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads")))


def claim(web: Web, worker: str, headers: dict[str, str], **body: Any) -> Any:
    return httpx.post(f"{web.url}/api/v1/workers/{worker}/claim/", json=body, headers=headers, timeout=60).json()


def claim_in_chunks(web: Web, worker: str, headers: dict[str, str], parts: list[bytes]) -> Any:
    """Send the claim chunked, without Content-Length."""
    chunked = {**headers, "Content-Type": "application/json"}
    address = f"{web.url}/api/v1/workers/{worker}/claim/"
    return httpx.post(address, content=iter(parts), headers=chunked, timeout=60).json()


def test_long_poll_claims(web: Web) -> None:
    headers = bearer("agent", "crowd")
    check_claims_wait_at_most_as_long_as_requested(web, headers)
    check_a_thousand_claims_wait_in_one_process(web, headers)


def check_claims_wait_at_most_as_long_as_requested(web: Web, headers: dict[str, str]) -> None:
    world.idle_worker(id="one")
    world.worker(id="two")
    started = time.monotonic()
    assert claim(web, "one", headers, wait=1) == {"tasks": []}
    assert 1 <= time.monotonic() - started < 15
    started = time.monotonic()
    assert claim_in_chunks(web, "one", headers, [b'{"wait"', b": 1}"]) == {"tasks": []}
    assert 1 <= time.monotonic() - started < 15
    assert (
        claim_in_chunks(web, "one", headers, [b'{"wait": 1, "more": "', *[b"x" * 50_000] * 3, b'"}'])["code"]
        == "invalid"
    )
    assert claim(web, "two", headers, wait=30)["code"] == "guard_failed"
    assert claim(web, "one", headers, wait=31)["code"] == "invalid"
    assert claim(web, "unknown", headers, wait=30)["code"] == "not_found"
    assert claim(web, "one", {}, wait=30)["code"] == "not_authenticated"

    # A disconnected client claims nothing.
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{web.url}/api/v1/workers/one/claim/", json={"wait": 30}, headers=headers, timeout=2)
    task = world.queued_task()
    assert [each["id"] for each in claim(web, "one", headers)["tasks"]] == [task.pk]


def check_a_thousand_claims_wait_in_one_process(web: Web, headers: dict[str, str]) -> None:
    with transaction.atomic():
        names = [f"w-{number}" for number in range(1_000)]
        for name in names:
            world.worker(id=name, capabilities=["gpu"] if name == "w-999" else [])
        transitions.transition_many(Worker, names, "registration_completed", actor=THE_SYSTEM)
    workstream = world.workstream()
    before = web.log.count("/claim/")

    def all_have_polled() -> bool:
        return web.log.count("/claim/") >= before + 2_000  # one line when a request begins, and one when it ends

    def queue(needs: list[str], *ids: str) -> None:
        for pk in ids:
            world.queued_task(id=pk, workstream=workstream, required_capabilities=needs)
        connections.close_all()

    async def crowd() -> list[list[str]]:
        polls = [asyncio.create_task(Poll(web, name, headers).send_until_claimed()) for name in names]
        await asyncio.to_thread(until, all_have_polled, 120)
        assert not any(task.done() for task in polls)
        assert threads_of(web) < 60
        # One after the other: the worker with the GPU could also have taken a plain task.
        for needs, ids, done in ((["gpu"], ["special"], 1), ([], ["plain-1", "plain-2"], 3)):
            await asyncio.to_thread(queue, needs, *ids)
            async with asyncio.timeout(60):
                while sum(task.done() for task in polls) < done:
                    await asyncio.sleep(0.05)
        claimed = [task.result() for task in polls if task.done()]
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        return claimed

    claimed = asyncio.run(crowd())
    assert sorted(pk for ids in claimed for pk in ids) == ["plain-1", "plain-2", "special"]
    assert Task.objects.get(pk="special").worker_id == "w-999"


def test_a_waiting_claim_is_woken_without_the_sequencer(
    home: Path, redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_queue, "POLL_SECONDS", 600.0)
    world.idle_worker(id="w")
    workstream = world.workstream()

    async def wait() -> None:
        async with claim_queue.get_claim_queue().join("w") as ticket:
            await ticket.wait()

    with running_app() as app:
        woken = asyncio.run_coroutine_threadsafe(wait(), app.loop)
        # Each of them is announced: the first may come before the process listens.
        until(lambda: world.queued_task(workstream=workstream) and woken.done())
        # A task that was queued before the wait began, and is not announced again.
        app.run(wait())


def test_only_workers_that_can_take_a_task_are_woken() -> None:
    workstream = world.workstream()
    for name, capabilities in (("a", []), ("b", ["gpu"]), ("c", ["gpu"])):
        world.idle_worker(id=name, capabilities=capabilities, max_concurrent_tasks=2)
    world.queued_task(workstream=workstream, required_capabilities=["gpu"])
    assert find_workers_to_wake(["a", "b", "c"]) == ["b"]
    assert find_workers_to_wake(["a", "c", "b"]) == ["c"]
    world.queued_task(workstream=workstream)
    world.queued_task(workstream=workstream)
    assert find_workers_to_wake(["a", "b"]) == ["a", "b"]
    world.fire(Worker.objects.get(pk="a"), "shutdown_requested")
    assert find_workers_to_wake(["a", "gone", "c"]) == ["a", "gone", "c"]
    assert find_workers_to_wake([]) == []
