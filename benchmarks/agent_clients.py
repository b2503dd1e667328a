"""Agents over HTTP, as coroutines of one process: they report and claim, or wait for tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any
from uuid import uuid4

import orjson

from benchmarks.http_clients import Address, Connection

WORKSTREAMS = 20
PAUSE_SECONDS = 0.1
SETTLE_SECONDS = 1.0
NUMBERS = count()


class Agent:
    """A worker with one task at a time. Each of its calls has an idempotency key, like those of the client."""

    def __init__(self, connection: Connection, worker: str) -> None:
        self.connection, self.worker = connection, worker
        self.reports: list[dict[str, Any]] = []

    async def register(self) -> None:
        await self._post("workers/", {"id": self.worker})

    async def report_and_claim(self) -> None:
        """Reports the task that it holds and claims the next one, in one call."""
        answer = await self._post(f"workers/{self.worker}/claim/", {"max": 1, "reports": self.reports})
        if refused := [each for each in answer.get("reports", ()) if each.get("refusal")]:
            raise RuntimeError(f"refused: {refused}")
        self.reports = [
            {"task": task["id"], "attempt": task["attempt"], "trigger": "execution_completed", "exit_code": 0}
            for task in answer["tasks"]
        ]
        if not answer["tasks"]:  # the last tasks of a round were locked by other claims
            await self.report_and_claim()

    async def claim_then_report(self) -> None:
        tasks: list[Any] = []
        while not tasks:
            tasks = (await self._post(f"workers/{self.worker}/claim/", {"max": 1}))["tasks"]
        await self.report(tasks[0])

    async def report(self, task: dict[str, Any]) -> None:
        report = {"trigger": "execution_completed", "attempt": task["attempt"], "exit_code": 0}
        await self._post(f"tasks/{task['id']}/transitions/", report)

    async def wait_for_task(self, seconds: int) -> list[dict[str, Any]]:
        path = f"workers/{self.worker}/claim/?wait={seconds}"
        return list((await self._post(path, {"max": 1}))["tasks"])

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        key = f"Idempotency-Key: {uuid4()}\r\n"
        return dict(orjson.loads(await self.connection.post(f"/api/v1/{path}", orjson.dumps(body), key)))


async def run_agents(
    agents: list[Agent], work: Callable[[Agent], Awaitable[None]], each: int
) -> tuple[float, list[float]]:
    """Each agent works on so many tasks. Returns the seconds in all, and those of each task."""
    took: list[float] = []

    async def run(agent: Agent) -> None:
        for _ in range(each):
            start = time.perf_counter()
            await work(agent)
            took.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*map(run, agents))
    return time.perf_counter() - start, took


async def submit(address: Address, token: str, tasks: int) -> float:
    """Submits a plan and starts it. Returns the seconds that the call takes."""
    connection, body = await Connection.open(address, token), orjson.dumps(build_plan(tasks))
    start = time.perf_counter()
    await connection.post("/api/v1/runs/submit/", body)
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def build_plan(tasks: int) -> dict[str, Any]:
    number, several = next(NUMBERS), min(tasks, WORKSTREAMS)
    workstreams = [
        {"id": f"p{number}:{part}", "tasks": [{"id": f"p{number}:{task}"} for task in range(part, tasks, several)]}
        for part in range(several)
    ]
    return {"phase": "phase", "start": True, "workstreams": workstreams}


async def measure_start(addresses: dict[str, Address], token: str, waiting: int, tasks: int) -> list[float]:
    """Submits plans of one task each. Returns the milliseconds from their answers until an agent has its task.

    The agents wait at the live server and report at the rest server.
    """
    submitted: dict[str, float] = {}
    claimed: dict[str, float] = {}
    agents = [
        (Agent(await Connection.open(addresses["live"], token), f"waiting{number}"),
         Agent(await Connection.open(addresses["rest"], token), f"waiting{number}"))
        for number in range(waiting)
    ]  # fmt: skip
    await asyncio.gather(*(reporting.register() for _live, reporting in agents))

    async def work(live: Agent, rest: Agent) -> None:
        while len(claimed) < tasks:
            for task in await live.wait_for_task(30):
                claimed[task["id"]] = time.perf_counter()
                await rest.report(task)

    working = [asyncio.create_task(work(*pair)) for pair in agents]
    await asyncio.sleep(SETTLE_SECONDS)
    connection = await Connection.open(addresses["rest"], token)
    for _ in range(tasks):
        plan = build_plan(1)
        await connection.post("/api/v1/runs/submit/", orjson.dumps(plan))
        submitted[plan["workstreams"][0]["tasks"][0]["id"]] = time.perf_counter()
        await asyncio.sleep(PAUSE_SECONDS)
    async with asyncio.timeout(60):
        while len(claimed) < tasks:
            await asyncio.sleep(PAUSE_SECONDS)
    for each in working:
        each.cancel()
    return [(claimed[task] - at) * 1000 for task, at in submitted.items()]
