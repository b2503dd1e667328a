"""Claims that wait: woken when there is work, in their turn, without a thread each."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connections, transaction

from statecore import door
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.scheduling.matching import worth_asking
from tests.support import world
from tests.support.waiting import until
from tests.support.web import Web, bearer

pytestmark = pytest.mark.django_db(transaction=True)


class Poll:
    """A claim on the wire: one connection, one request, one answer."""

    def __init__(self, web: Web, worker: str, headers: dict[str, str], **body: Any) -> None:
        text = json.dumps({"wait": 30, **body}).encode()
        given = {"Host": f"127.0.0.1:{web.port}", "Content-Type": "application/json", "Content-Length": str(len(text))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**given, **headers, "Connection": "close"}.items())
        self.request = f"POST /api/v1/workers/{worker}/claim/ HTTP/1.1\r\n{lines}\r\n".encode() + text
        self.web, self.answer = web, b""

    async def ask(self) -> list[str]:
        """The ids of the tasks."""
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

    async def ask_until_there_is_one(self) -> list[str]:
        """As an agent does; on a busy machine some have waited long before the last one begins."""
        while not (found := await self.ask()):
            pass
        return found


def threads_of(web: Web) -> int:
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads")))


def claim(web: Web, worker: str, headers: dict[str, str], **body: Any) -> Any:
    return httpx.post(f"{web.url}/api/v1/workers/{worker}/claim/", json=body, headers=headers, timeout=60).json()


def in_chunks(web: Web, worker: str, headers: dict[str, str], parts: list[bytes]) -> Any:
    """As those send it who do not say how long it is."""
    told = {**headers, "Content-Type": "application/json"}
    address = f"{web.url}/api/v1/workers/{worker}/claim/"
    return httpx.post(address, content=iter(parts), headers=told, timeout=60).json()


def test_claims_that_wait(web: Web) -> None:
    headers = bearer("agent", "crowd")
    a_claim_waits_no_longer_than_it_said_and_not_at_all_where_it_is_refused(web, headers)
    a_thousand_wait_on_one_process_and_work_wakes_those_it_is_for(web, headers)


def a_claim_waits_no_longer_than_it_said_and_not_at_all_where_it_is_refused(web: Web, headers: dict[str, str]) -> None:
    world.idle_worker(id="one")
    world.worker(id="two")
    begun = time.monotonic()
    assert claim(web, "one", headers, wait=1) == {"tasks": []}
    assert 1 <= time.monotonic() - begun < 15
    begun = time.monotonic()
    assert in_chunks(web, "one", headers, [b'{"wait"', b": 1}"]) == {"tasks": []}
    assert 1 <= time.monotonic() - begun < 15
    assert in_chunks(web, "one", headers, [b'{"wait": 1, "more": "', *[b"x" * 50_000] * 3, b'"}'])["code"] == "invalid"
    assert claim(web, "two", headers, wait=30)["code"] == "guard_failed"
    assert claim(web, "one", headers, wait=31)["code"] == "invalid"
    assert claim(web, "nobody", headers, wait=30)["code"] == "not_found"
    assert claim(web, "one", {}, wait=30)["code"] == "not_authenticated"

    # One who has left claims nothing.
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{web.url}/api/v1/workers/one/claim/", json={"wait": 30}, headers=headers, timeout=2)
    task = world.queued_task()
    assert [each["id"] for each in claim(web, "one", headers)["tasks"]] == [task.pk]


def a_thousand_wait_on_one_process_and_work_wakes_those_it_is_for(web: Web, headers: dict[str, str]) -> None:
    with transaction.atomic():
        names = [f"w-{number}" for number in range(1_000)]
        for name in names:
            world.worker(id=name, capabilities=["gpu"] if name == "w-999" else [])
        door.transition_many(Worker, names, "registration_completed", actor=THE_SYSTEM)
    workstream = world.workstream()
    before = web.log.count("/claim/")

    def all_have_asked() -> bool:
        return web.log.count("/claim/") >= before + 2_000  # a line when each begins, and one when it is answered

    def queue(needs: list[str], *ids: str) -> None:
        for pk in ids:
            world.queued_task(id=pk, workstream=workstream, required_capabilities=needs)
        connections.close_all()

    async def crowd() -> list[list[str]]:
        asking = [asyncio.create_task(Poll(web, name, headers).ask_until_there_is_one()) for name in names]
        await asyncio.to_thread(until, all_have_asked, 120)
        assert not any(task.done() for task in asking)
        assert threads_of(web) < 60
        # One after the other: whoever can do what is special could also have taken what is not.
        for needs, ids, done in ((["gpu"], ["special"], 1), ([], ["plain-1", "plain-2"], 3)):
            await asyncio.to_thread(queue, needs, *ids)
            async with asyncio.timeout(60):
                while sum(task.done() for task in asking) < done:
                    await asyncio.sleep(0.05)
        answered = [task.result() for task in asking if task.done()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return answered

    answered = asyncio.run(crowd())
    assert sorted(pk for ids in answered for pk in ids) == ["plain-1", "plain-2", "special"]
    assert Task.objects.get(pk="special").worker_id == "w-999"


def test_who_is_worth_waking() -> None:
    workstream = world.workstream()
    for name, capabilities in (("a", []), ("b", ["gpu"]), ("c", ["gpu"])):
        world.idle_worker(id=name, capabilities=capabilities, max_concurrent_tasks=2)
    world.queued_task(workstream=workstream, required_capabilities=["gpu"])
    assert worth_asking(["a", "b", "c"]) == ["b"]
    assert worth_asking(["a", "c", "b"]) == ["c"]
    world.queued_task(workstream=workstream)
    world.queued_task(workstream=workstream)
    assert worth_asking(["a", "b"]) == ["a", "b"]
    world.fire(Worker.objects.get(pk="a"), "shutdown_requested")
    assert worth_asking(["a", "gone", "c"]) == ["a", "gone", "c"]
    assert worth_asking([]) == []
