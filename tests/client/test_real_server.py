"""The client and the real server: answers that are lost, and callers that race."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from api.client import Client, Conflict, IdempotencyMismatch, NotFound, Patience
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from tests.agent.process import running, submit
from tests.client.lossy import losing
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support import world
from tests.support.plans import copied
from tests.support.site import ROOT, Site
from tests.support.waiting import until

QUICK = Patience(first=0.01, longest=0.05, total=20)


@pytest.fixture
def lossy(site: Site) -> Iterator[Client]:
    """Every answer is lost twice before one gets through: each test makes one call."""
    with losing(site.port, 2) as url, Client(url, sites.token("override"), patience=QUICK) as client:
        yield client


def events(trigger: str) -> int:
    return Event.objects.filter(trigger=trigger).count()


def test_a_move_whose_answers_are_lost_is_made_once(lossy: Client) -> None:
    submit({"id": "t1"})
    running()

    outcome = lossy.fire("tasks", "t1", "user_cancelled", reason="not needed")

    assert outcome.replayed
    assert outcome.entity
    assert outcome.entity.state == "cancelled"
    assert events("user_cancelled") == 1


def test_a_plan_whose_answers_are_lost_is_kept_once(lossy: Client) -> None:
    plan = {"phase": world.phase().pk, "workstreams": [{"id": "w", "tasks": [{"id": "a"}]}]}

    submitted = lossy.submit(plan)

    assert submitted.replayed
    assert [run.pk for run in Run.objects.all()] == [submitted.run]


def test_a_claim_whose_answers_are_lost_is_told_again(lossy: Client) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    worker = world.idle_worker(max_concurrent_tasks=1)

    claimed = lossy.claim(worker.pk)

    assert [task.attempt for task in claimed] == [1]
    assert [task.pk for task in Task.objects.filter(state="running")] == [claimed[0].id]


def test_an_override_whose_answers_are_lost_is_on_record_once(lossy: Client) -> None:
    submit({"id": "t1"})

    lossy.override("tasks", "t1", "failed", reason="seen to be wrong by hand", category="other")

    assert events("manual_override") == 1


def test_of_many_who_race_one_wins_and_the_others_are_told(site: Site) -> None:
    submit({"id": "t1"})
    running()
    with Client(site.url, sites.token("operate"), patience=QUICK) as client, ThreadPoolExecutor(8) as pool:

        def cancel(_: int) -> str:
            try:
                client.fire("tasks", "t1", "user_cancelled", reason="not needed")
            except Conflict as refusal:
                return refusal.code
            return "won"

        told = sorted(pool.map(cancel, range(8)))

    assert told == ["already_in_state"] * 7 + ["won"]
    assert events("user_cancelled") == 1


def test_every_call_of_operators_and_screens_is_understood(site: Site, tmp_path: Path) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    running()
    with Client(site.url, sites.token("override"), patience=QUICK) as client, sequencers.running(tmp_path):
        client.override("tasks", "t2", "failed", reason="seen to be wrong by hand", category="other")
        until(lambda: client.stats()["position"] >= Event.objects.count())

        assert {machine.entity_type for machine in client.machines()} >= {"task", "run"}
        assert client.machine("task").initial == "pending"
        assert [event.entity_id for event in client.overrides()] == ["t2"]
        assert [told.position for told in client.events(page_size=2)] == list(range(1, Event.objects.count() + 1))
        assert client.run_at("r1", datetime.now(UTC))
        assert client.verify()
        assert list(client.alerts()) == []
        assert list(client.stuck()) is not None
        assert client.bulk("tasks", "user_cancelled", ids=["t1", "t2"], reason="not needed")["total"] == 2
        assert client.drain("w1").state == "shutdown"
        assert client.change("tasks", "t1", metadata={"seen": True}).metadata == {"seen": True}


def test_what_is_stuck_is_read_to_its_end(site: Site) -> None:
    with time_machine.travel(now() - timedelta(days=2)):
        copied(world.run(), 149)
    with Client(site.url, sites.token("read"), patience=QUICK) as client:
        for size in (100, 120):
            assert len({each.id for each in client.stuck(entity_type="run", page_size=size)}) == 150


def test_breakers_checkpoints_and_the_log_of_a_job_are_understood(site: Site) -> None:
    with Client(site.url, sites.token("agent"), patience=QUICK) as client:
        assert client.acquire("pytest")["allowed"]
        assert client.report("pytest", success=False, error="it crashed")["counted"]
        job = client.create("pipeline-jobs").id
        client.store_checkpoint(job, "extract", {"row": 7})
        assert client.checkpoint(job, "extract") == {"row": 7}
        client.clear_checkpoint(job, "extract")
        with pytest.raises(NotFound):
            client.checkpoint(job, "extract")
        agent_job = client.create("agent-jobs").id
        assert isinstance(list(client.agent_events(agent_job)), list)


def test_a_patch_is_handed_in_for_a_task_that_is_held(site: Site) -> None:
    submit({"id": "t1"})
    with Client(site.url, sites.token("agent"), patience=QUICK) as client:
        (task,) = client.claim(client.register().id)
        diff = client.store_diff("--- a/x\n+++ b/x\n", title="x")
        patch = client.hand_in(task.id, attempt=task.attempt, diff_id=diff["id"])
        assert client.get("tasks", "t1").fields["patch"] == patch.id
        assert client.complete(task.id, attempt=task.attempt).entity.state == "validating"
        assert client.heartbeat(task.fields["worker"], holds=[task]).cancels(task), "it was let go"


def test_one_request_id_for_two_requests_is_refused(site: Site) -> None:
    with Client(site.url, sites.token("operate"), patience=QUICK) as client:
        client.create("phases", id="PH-A", request_id="same")
        with pytest.raises(IdempotencyMismatch):
            client.create("phases", id="PH-B", request_id="same")


def test_the_client_the_command_line_and_the_agent_need_no_django() -> None:
    """Where Django is not installed they are all there is."""
    without = "import sys; sys.modules.update(dict.fromkeys(['django', 'rest_framework', 'channels', 'mcp'])); "
    script = f"{without}import api.client, api.agent, api.cli.main; api.cli.main.build()"

    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=120)
