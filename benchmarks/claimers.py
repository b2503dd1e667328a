"""Contenders that claim and complete tasks. Each takes the name of its worker and the number of tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from django.db import connection

from benchmarks.raw import FINISH, HASH, Contender, Edge, event, session
from statecore import scheduling, transitions
from statecore.kernel.actors import Actor
from statecore.machines.task import Task

REPORT = {"attempt": 1, "exit_code": 0}
START = Edge("worker_started", "queued", "running")
CHOOSE = (
    "SELECT id, version FROM twin_task WHERE state = 'queued' "
    "ORDER BY priority DESC, state_entered_at, id LIMIT 1 FOR UPDATE SKIP LOCKED"
)
TAKE = (
    "UPDATE twin_task SET state = %s, version = %s, chain_head = %s, updated_at = %s, state_entered_at = %s, "
    "started_at = %s, lease_expires_at = %s, attempt = 1, worker_id = 'worker' WHERE id = %s"
)
COMPLETE = (
    "UPDATE twin_task SET state = 'completed', version = %s, chain_head = %s, updated_at = %s, state_entered_at = %s, "
    "exit_code = 0, worker_id = NULL, lease_expires_at = NULL, completed_at = %s "
    "WHERE id = %s AND state = %s AND attempt = 1"
)


def raw(share: tuple[str, int]) -> None:
    """Two transactions per task, each with an update and an audit row; no worker, workstream or hash chain."""
    _name, count = share
    session_ = session()
    for _ in range(count):
        session_.cursor.execute(CHOOSE)
        entity_id, version = session_.cursor.fetchone()
        at = session_.now()
        row = (START.target, version + 1, HASH, at, at, at, at, entity_id)
        session_.write(TAKE, row, event("task", entity_id, version + 1, START, at))
        at = session_.now()
        row = (version + 2, HASH, at, at, at, entity_id, START.target)
        session_.write(COMPLETE, row, event("task", entity_id, version + 2, FINISH, at))


def claim_then_report(share: tuple[str, int]) -> None:
    name, count = share
    agent = Actor.agent(name)
    for _ in range(count):
        (task,) = scheduling.claim(name, actor=agent, most=1)
        transitions.transition(Task, task.pk, "execution_completed", actor=agent, params=REPORT)


def report_and_claim() -> Contender:
    """Each task is reported together with the claim of the next one, across shares.

    The worker is therefore always busy, and no other contender uses it.
    """
    reports: list[scheduling.Report] = []

    def work(share: tuple[str, int]) -> None:
        nonlocal reports
        name, count = f"busy-{share[0]}", share[1]
        agent = Actor.agent(name)
        for _ in range(count):
            results, (task,) = scheduling.report_and_claim(name, reports, actor=agent, most=1)
            assert all(item.outcome for item in results)  # noqa: S101 - refusals would distort the rate
            reports = [scheduling.Report(task.pk, "execution_completed", REPORT)]

    return work


def claim_ten(share: tuple[str, int]) -> None:
    """One claim and one report for ten tasks."""
    name, count = share
    agent = Actor.agent(name)
    for _ in range(count // 10):
        held = [task.pk for task in scheduling.claim(name, actor=agent, most=10)]
        items = transitions.transition_many(Task, held, "execution_completed", actor=agent, params=REPORT)
        assert sum(1 for item in items if item.outcome) == 10  # noqa: S101 - refusals would distort the rate


def procrastinate() -> Contender:
    """Procrastinate's job manager, called like its worker does, on a separate connection."""
    from procrastinate import PsycopgConnector, jobs
    from procrastinate.manager import JobManager

    given = connection.settings_dict
    loop = asyncio.new_event_loop()
    connector = PsycopgConnector(
        kwargs={"dbname": given["NAME"], "user": given["USER"], "host": given["HOST"], "port": given["PORT"] or None},
        min_size=1,
        max_size=1,
    )
    manager = JobManager(connector)
    worker: list[int] = []

    async def work(count: int) -> None:
        if not worker:
            await connector.open_async()
            worker.append(await manager.register_worker())
        for _ in range(count):
            job: Any = await manager.fetch_job(queues=None, worker_id=worker[0])
            assert job is not None  # noqa: S101 - empty fetches would distort the rate
            await manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)

    return lambda share: loop.run_until_complete(work(share[1]))
