"""Several processes: they share throttle counters, and a Celery worker runs the bulk jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from statecore.bulk import jobs
from statecore.bulk.actions import Fire, Override
from statecore.machines.pipeline_job import PipelineJob
from statecore.records import BulkJob
from tests.api import server
from tests.api.callers import Caller, expect_ok
from tests.support import world
from tests.support.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

LIMIT, CALLS = 10, 40


def test_two_servers_count_one_callers_calls_together(redis_server: str, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {Caller('read').text}"}
    limit = {"STATECORE_CALLS_PER_MINUTE": str(LIMIT)}
    with (
        server.running(redis_server, tmp_path / "one.log", **limit) as one,
        server.running(redis_server, tmp_path / "other.log", **limit) as other,
        httpx.Client(headers=headers) as client,
    ):
        started = int(time.time()) // 60
        answer = [client.get(f"{(one, other)[number % 2]}/api/v1/tasks/").status_code for number in range(CALLS)]
        minutes = int(time.time()) // 60 - started + 1  # most often one
    assert set(answer) == {200, 429}
    assert LIMIT <= answer.count(200) <= LIMIT * minutes


@contextmanager
def worker(redis: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = ["celery", "--app=statecore.project", "worker", "--pool=solo", "--without-gossip", "--without-mingle"]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=server.ROOT,
            env={**os.environ, **server.settings(redis)},
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def test_a_large_bulk_call_is_worked_off_by_a_celery_worker(redis_server: str, tmp_path: Path) -> None:
    ids = [world.created("PipelineJob", id=f"j{number}").pk for number in range(Fire.at_once + 1)]
    operator = Caller("operate")
    with worker(redis_server, tmp_path / "worker.log"):
        response = operator.post("pipeline-jobs/bulk-transitions/", {"ids": ids, "trigger": "analyze"})
        job = expect_ok(response, 202)["job"]["id"]
        until(lambda: BulkJob.objects.get(pk=job).finished_at is not None, 60)
    answer = expect_ok(operator.get(f"bulk-jobs/{job}/"))
    assert (answer["done"], answer["refused"], answer["finished"]) == (len(ids), 0, True)
    assert set(PipelineJob.objects.values_list("version", flat=True)) == {2}


def test_a_bulk_job_whose_worker_is_killed_changes_each_entity_once(redis_server: str, tmp_path: Path) -> None:
    ids = [world.created("PipelineJob", id=f"k{number:03}").pk for number in range(2 * Override.at_once)]
    body = {"ids": ids, "action": "override", "to_state": "FAILED", "reason": "its source is gone", "category": "other"}
    with worker(redis_server, tmp_path / "worker.log") as process:
        job = expect_ok(Caller("override").post("pipeline-jobs/bulk/", body), 202)["job"]["id"]
        until(lambda: BulkJob.objects.get(pk=job).done > 0, 60)
        process.kill()
        process.wait(10)
    jobs.run_due()

    found = BulkJob.objects.get(pk=job)
    assert (found.done, found.changed, found.finished_at is not None) == (len(ids), len(ids), True)
    assert set(PipelineJob.objects.filter(pk__in=ids).values_list("state", "version")) == {("FAILED", 2)}
