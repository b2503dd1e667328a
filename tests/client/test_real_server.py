"""The client against the real server: lost responses and concurrent callers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from statecore.journal import Event, EventKind, Position
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore_client import Client, Conflict, IdempotencyMismatch, NotFound, Outage, RetryPolicy
from tests.agent.process import claim_as_w1, submit
from tests.client.lossy import losing
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support import world
from tests.support.plans import insert_copies
from tests.support.site import ROOT, Site
from tests.support.waiting import until

QUICK = RetryPolicy(first=0.01, longest=0.05, total=20)


@pytest.fixture
def lossy(site: Site) -> Iterator[Client]:
    """A client that loses its first two responses; each test makes one call."""
    with losing(site.port, 2) as url, Client(url, sites.token("override"), retry_policy=QUICK) as client:
        yield client


def count_events(trigger: str) -> int:
    return Event.objects.filter(trigger=trigger).count()


def test_a_transition_whose_responses_are_lost_happens_once(lossy: Client) -> None:
    submit({"id": "t1"})
    claim_as_w1()

    outcome = lossy.fire("tasks", "t1", "user_cancelled", reason="not needed")

    assert outcome.replayed
    assert outcome.entity
    assert outcome.entity.state == "cancelled"
    assert count_events("user_cancelled") == 1


def test_a_plan_whose_responses_are_lost_is_stored_once(lossy: Client) -> None:
    plan = {"phase": world.phase().pk, "workstreams": [{"id": "w", "tasks": [{"id": "a"}]}]}

    submitted = lossy.submit_plan(plan)

    assert submitted.replayed
    assert [run.pk for run in Run.objects.all()] == [submitted.run]


def test_a_claim_whose_responses_are_lost_is_repeated(lossy: Client) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    worker = world.idle_worker(max_concurrent_tasks=1)

    claimed = lossy.claim_tasks(worker.pk)

    assert [task.attempt for task in claimed] == [1]
    assert [task.pk for task in Task.objects.filter(state="running")] == [claimed[0].id]


def test_an_override_whose_responses_are_lost_is_recorded_once(lossy: Client) -> None:
    submit({"id": "t1"})

    lossy.override("tasks", "t1", "failed", reason="seen to be wrong by hand", category="other")

    assert count_events("manual_override") == 1


def test_one_of_many_concurrent_callers_wins_and_the_others_are_refused(site: Site) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    with Client(site.url, sites.token("operate"), retry_policy=QUICK) as client, ThreadPoolExecutor(8) as pool:

        def cancel(_: int) -> str:
            try:
                client.fire("tasks", "t1", "user_cancelled", reason="not needed")
            except Conflict as refusal:
                return refusal.code
            return "won"

        outcomes = sorted(pool.map(cancel, range(8)))

    assert outcomes == ["already_in_state"] * 7 + ["won"]
    assert count_events("user_cancelled") == 1


def list_entity_positions() -> list[int]:
    """The positions in between belong to the account journal, such as those of the caller's token."""
    found = Position.objects.exclude(kind=EventKind.ACCOUNT).order_by("position")
    return list(found.values_list("position", flat=True))


def test_the_calls_of_operators_and_displays_work(site: Site, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    claim_as_w1()
    with Client(site.url, sites.token("override"), retry_policy=QUICK) as client, sequencers.running(tmp_path):
        client.override("tasks", "t2", "failed", reason="seen to be wrong by hand", category="other")
        until(lambda: client.get_stats()["position"] >= Event.objects.count())

        assert {machine.entity_type for machine in client.list_machines()} >= {"task", "run"}
        assert client.get_machine("task").initial == "pending"
        assert [event.entity_id for event in client.list_overrides()] == ["t2"]
        assert [event.position for event in client.list_events(page_size=2)] == list_entity_positions()
        assert client.get_run_at("r1", datetime.now(UTC))
        assert client.get_run_estimate("r1")["run"] == "r1"
        assert client.verify_journal()
        assert {alert["rule"] for alert in client.list_alerts()} <= {"needs_decision"}
        assert list(client.list_stuck()) is not None
        assert client.fire_for_many("tasks", "user_cancelled", ids=["t1", "t2"], reason="not needed")["total"] == 2
        retried = client.apply_to_many("tasks", "retry", ids=["t2"], reason="needed after all")
        assert (retried["total"], retried["results"][0]["refusal"] is None) == (1, retried["refused"] == 0)
        assert client.drain_worker("w1").state == "shutdown"
        assert client.edit("tasks", "t1", metadata={"seen": True}).metadata == {"seen": True}


def test_all_pages_of_stuck_rows_are_read(site: Site) -> None:
    with time_machine.travel(now() - timedelta(days=2)):
        insert_copies(world.run(), 149)
    with Client(site.url, sites.token("read"), retry_policy=QUICK) as client:
        for size in (100, 120):
            assert len({each.id for each in client.list_stuck(entity_type="run", page_size=size)}) == 150


def test_breaker_checkpoint_and_job_log_calls_work(site: Site) -> None:
    with Client(site.url, sites.token("agent"), retry_policy=QUICK) as client:
        assert client.acquire_breaker("pytest")["allowed"]
        assert client.report_breaker("pytest", success=False, error="it crashed")["counted"]
        job = client.create("pipeline-jobs").id
        client.store_checkpoint(job, "extract", {"row": 7})
        assert client.get_checkpoint(job, "extract") == {"row": 7}
        client.delete_checkpoint(job, "extract")
        with pytest.raises(NotFound):
            client.get_checkpoint(job, "extract")
        agent_job = client.create("agent-jobs").id
        assert isinstance(list(client.list_job_events(agent_job)), list)


def test_a_patch_is_submitted_for_a_claimed_task(site: Site) -> None:
    submit({"id": "t1"})
    with Client(site.url, sites.token("agent"), retry_policy=QUICK) as client:
        (task,) = client.claim_tasks(client.register_worker().id)
        diff = client.store_diff("--- a/x\n+++ b/x\n", title="x")
        patch = client.submit_patch(task.id, attempt=task.attempt, diff_id=diff["id"])
        assert client.get("tasks", "t1").fields["patch"] == patch.id
        assert client.complete_task(task.id, attempt=task.attempt).entity.state == "validating"
        assert client.send_heartbeat(task.fields["worker"], holds=[task]).cancels(task), "the task was released"


def test_a_stream_resumes_after_a_restart_of_the_server(site: Site) -> None:
    phase, short = world.phase(), RetryPolicy(first=0.05, longest=0.2, total=0.5)
    world.run(phase=phase)
    sequencers.catch_up()

    def start_after_a_second(outage: Outage) -> None:
        if outage.seconds > 1 and site.process is not None and site.process.poll() is not None:
            site.start()

    with Client(site.url, sites.token("read"), retry_policy=short) as client:
        stream = client.stream_events(after=0, on_outage=start_after_a_second)
        first = next(stream).position
        site.end()
        world.run(phase=phase)
        world.run(phase=phase)
        sequencers.catch_up()
        assert [first, *(next(stream).position for _ in range(2))] == list_entity_positions()


def test_one_request_id_for_two_requests_is_refused(site: Site) -> None:
    with Client(site.url, sites.token("operate"), retry_policy=QUICK) as client:
        client.create("phases", id="PH-A", request_id="same")
        with pytest.raises(IdempotencyMismatch):
            client.create("phases", id="PH-B", request_id="same")


def test_the_client_the_command_line_and_the_agent_need_no_django() -> None:
    """They are usable where Django is not installed."""
    others = ["django", "rest_framework", "channels", "mcp", "statecore", "api"]
    without = f"import sys; sys.modules.update(dict.fromkeys({others}))"
    script = "from statecore_client import Client, agent; from statecore_client.cli import main; main.build_parser()"

    imported = subprocess.run([sys.executable, "-c", f"{without}; {script}"], cwd=ROOT, check=False, timeout=120)

    assert imported.returncode == 0
