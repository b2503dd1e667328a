"""Recovery of stuck rows, automatic or approved by an operator."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.refusals import ConstraintViolated, GuardFailed, LeaseLost, PermissionDenied
from statecore.read_models import stuck
from statecore.records import checkpoint
from statecore.scheduling import agent_job_replay, renew
from statecore.scheduling.recovery import RECOVERIES
from tests.races.records import assert_consistent, path
from tests.support import world
from tests.support.together import run_concurrently

pytestmark = pytest.mark.django_db


def recover(entity: Any, *, count: int = 1) -> Any:
    """Run the recovery sweep, assert that a second one finds nothing, and return the entity."""
    assert stuck.recover_stalled() == count
    assert stuck.recover_stalled() == 0
    return assert_consistent(entity)


def is_left_unchanged(entity: Any) -> bool:
    before = world.trace(entity)
    return stuck.recover_stalled() == 0 and world.trace(entity) == before


def started_job(**fields: Any) -> Any:
    return world.fire(world.created("IngestionJob", **fields), "start", worker="ann")


class TestIngestionJobs:
    def test_a_stalled_job_fails_and_is_pending_again_after_the_delay(self, later) -> None:
        job = started_job()
        later(minutes=10)
        assert is_left_unchanged(job)
        later(seconds=1)
        job = recover(job)
        assert (job.state, (job.run_after - now()).total_seconds()) == ("pending", 60)
        assert path(job)[-2:] == [("fail", "failed"), ("retry", "pending")]
        event = world.last_event(job)
        assert (event["actor"], event["reason"]) == ("system", "fail and retry")
        assert job.last_error == "stalled: no report for 10 min"

    def test_the_previous_worker_has_lost_its_lease(self, later) -> None:
        job = started_job()
        later(minutes=11)
        job = recover(job)
        later(minutes=2)
        again = world.fire(job, "start", worker="ben")
        with pytest.raises(LeaseLost):
            world.fire(again, "succeed", actor=world.AGENT, attempt=1)

    def test_a_job_without_attempts_left_is_quarantined(self, later) -> None:
        job = started_job(max_attempts=1)
        later(minutes=11)
        assert recover(job).state == "quarantined"

    @pytest.mark.parametrize(("attempts", "state"), [(3, "pending"), (1, "quarantined")])
    def test_a_failed_job_is_retried_or_quarantined(self, later, attempts: int, state: str) -> None:
        job = world.fire(started_job(max_attempts=attempts), "fail", error="no such file")
        later(minutes=11)
        assert recover(job).state == state


class TestAgentJobs:
    def leased(self) -> Any:
        return world.fire(world.created("AgentJob"), "job_leased", worker="ann")

    def test_a_job_with_an_expired_lease_is_requeued(self, later) -> None:
        job = self.leased()
        later(minutes=31)
        job = recover(job)
        assert (job.state, job.worker_name, path(job)[-1]) == ("queued", "", ("job_requeued", "queued"))
        again = world.fire(job, "job_leased", worker="ben")
        with pytest.raises(LeaseLost):
            world.fire(again, "job_completed", actor=world.AGENT, attempt=1)

    def test_a_waiting_job_is_parked_and_never_reclaimed(self, later) -> None:
        job = world.fire(self.leased(), "job_waiting", signal="approve")
        later(minutes=59)
        assert is_left_unchanged(job)
        later(minutes=2)
        job = recover(job)
        assert (job.state, job.waiting_for) == ("parked", "approve")
        later(days=300)
        assert is_left_unchanged(job)
        assert list(agent_job_replay.find_violations()) == []
        assert list(agent_job_replay.find_mismatches()) == []

    def test_a_job_is_queued_when_its_retry_is_due(self, later) -> None:
        job = world.fire(self.leased(), "job_retry_scheduled", delay_seconds=90)
        later(seconds=89)
        assert is_left_unchanged(job)
        later(seconds=1)
        assert recover(job).state == "queued"


class TestSupervised:
    def running(self, *workers: str, **fields: Any) -> Any:
        job = world.created("SupervisedJob", task_description="sort", worker_count=len(workers), **fields)
        allocated = world.idle_supervised_workers(*workers)
        return world.fire(world.fire(job, "validate"), "allocate_resources", workers=allocated)

    def worker(self, pk: str) -> Any:
        return world.created("SupervisedWorker", id=pk, workspace_id="space")

    def test_an_overdue_worker_is_terminated(self, later) -> None:
        worker, paused = (world.fire(self.worker(pk), "start_task") for pk in ("sw1", "sw2"))
        paused = world.fire(paused, "pause")
        later(hours=2)
        assert recover(worker).state == "TERMINATED"
        assert assert_consistent(paused).state == "PAUSED"

    def test_an_overdue_job_is_canceled(self, later) -> None:
        job = self.running("sw1")
        later(hours=2)
        assert recover(job, count=2).state == "CANCELED"  # and its worker, which is overdue too

    def test_a_job_that_waits_for_workers_stays_pending(self, later) -> None:
        job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
        later(days=30)
        assert is_left_unchanged(job)

    def test_a_submitted_job_is_validated(self, later) -> None:
        valid = world.created("SupervisedJob", task_description="sort")
        invalid = world.created("SupervisedJob")
        later(minutes=6)
        assert recover(valid, count=2).state == "PENDING"
        invalid = assert_consistent(invalid)
        assert (invalid.state, invalid.last_error) == ("FAILED", "validate: task_description is empty")

    def test_a_job_that_lost_a_worker_continues_with_its_successor(self) -> None:
        lost, healthy = self.worker("sw1"), self.worker("sw2")
        job = self.running("sw1", "sw2")
        world.fire(lost, "error_unrecoverable", error="segmentation fault")
        job = recover(job)
        successor = world.model("SupervisedWorker").objects.get(retry_of="sw1")
        assert (job.state, job.allocated_workers, successor.state) == ("RUNNING", [successor.pk, healthy.pk], "IDLE")
        assert world.last_event(successor)["reason"] == f"lost by supervised job {job.pk}"

    def test_an_existing_successor_is_used(self) -> None:
        lost = self.worker("sw1")
        job = self.running("sw1")
        world.fire(lost, "terminate")
        successor = transitions.retry(type(lost), "sw1", actor=world.operator()).entity
        assert recover(job).allocated_workers == [successor.pk]

    def test_a_job_that_loses_its_worker_repeatedly_fails(self) -> None:
        self.worker("sw1")
        job = self.running("sw1")
        for _ in range(3):
            (current,) = type(job).objects.get(pk=job.pk).allocated_workers
            world.forced(world.model("SupervisedWorker").objects.get(pk=current), "FAILED")
            assert stuck.recover_stalled() == 1
        (current,) = type(job).objects.get(pk=job.pk).allocated_workers
        world.forced(world.model("SupervisedWorker").objects.get(pk=current), "FAILED")
        job = recover(job)
        assert (job.state, job.last_error) == ("FAILED", "a worker was lost more than 3 times")


class TestPipelineJobs:
    def test_a_crashed_job_resumes_in_its_current_state(self, later) -> None:
        job = world.fire(world.created("PipelineJob"), "materialize")
        checkpoint.store(job.pk, "blocks", {"next_block": 7})
        later(hours=3)
        before = path(job)
        job = recover(job)
        assert (job.state, job.resumed_at, path(job)) == ("MATERIALIZING", now(), before)
        stored = checkpoint.read(job.pk, "blocks")
        assert stored is not None
        assert stored.payload == {"next_block": 7}
        later(hours=3)
        assert recover(job).resumed_at == now()

    def test_a_job_that_stores_checkpoints_is_not_recovered(self, later) -> None:
        job = world.fire(world.created("PipelineJob"), "materialize")
        later(hours=3)
        checkpoint.store(job.pk, "blocks", {"next_block": 7})
        assert is_left_unchanged(job)


class TestUetWorkers:
    def idle(self, **fields: Any) -> Any:
        return world.fire(world.created("UetWorker", worker_type="executor", **fields), "initialization_completed")

    def test_a_silent_worker_is_quarantined_and_then_terminated(self, later) -> None:
        idle, busy, alive = self.idle(), world.fire(self.idle(), "task_assigned"), self.idle()
        later(seconds=121)
        world.touched(alive, last_heartbeat=now())
        idle = recover(idle, count=2)
        assert (idle.state, idle.quarantined_at) == ("IDLE", now())
        with pytest.raises(GuardFailed, match="in quarantine"):
            world.fire(idle, "task_assigned")
        later(minutes=3)
        world.touched(alive, last_heartbeat=now())
        assert recover(idle, count=2).state == "TERMINATED"
        assert path(busy)[-1] == ("worker_crashed", "TERMINATED")
        assert assert_consistent(busy).last_error == "no heartbeat for 5 min"
        assert assert_consistent(alive).state == "IDLE"
        event = world.last_event(busy)["metadata"]
        assert (event["heartbeat_status"], event["current_load"]) == ("quarantined", 0)

    def test_a_heartbeat_ends_the_quarantine(self, later) -> None:
        worker = self.idle()
        later(seconds=121)
        recover(worker)
        renew(type(worker), worker.pk, actor=world.AGENT)
        assert assert_consistent(worker).quarantined_at is None
        assert world.fire(worker, "task_assigned").state == "BUSY"

    def test_a_worker_that_never_started_is_terminated(self, later) -> None:
        worker = world.created("UetWorker", worker_type="executor")
        later(minutes=3)
        assert path(recover(worker))[-1] == ("spawn_failed", "TERMINATED")

    def test_a_draining_worker_is_terminated_only_without_heartbeats(self, later) -> None:
        worker = world.fire(world.fire(self.idle(), "task_assigned"), "shutdown_requested")
        later(minutes=31)
        world.touched(worker, last_heartbeat=now())
        assert is_left_unchanged(worker)
        later(minutes=31)
        assert path(recover(worker))[-1] == ("current_task_finished", "TERMINATED")

    def test_a_heartbeat_just_in_time_prevents_the_recovery(self, later) -> None:
        """The heartbeat arrives after the sweep found the worker and before it locked the row."""
        worker = self.idle()
        later(minutes=3)
        silent, _give_up = [one for one in RECOVERIES if one.entity_type == "uet_worker" and "IDLE" in one.states]
        assert silent.find(silent, now(), 10) == [worker.pk]
        worker = world.touched(worker, last_heartbeat=now())
        assert not silent.fits(worker, now())
        assert is_left_unchanged(worker)


class TestApproval:
    @pytest.fixture
    def job(self, later, settings) -> Any:
        settings.STATECORE_RECOVERY = {"ingestion_job": "approval"}
        job = started_job(id="j1")
        later(minutes=11)
        return job

    def test_a_recovery_that_needs_approval_is_only_proposed(self, job) -> None:
        assert is_left_unchanged(job)
        (item,) = stuck.list_stuck()
        assert (item.entity.pk, item.kind) == ("j1", "needs approval")
        assert item.recovery.as_dict() == {"action": "fail and retry", "mode": "approval"}

    def test_an_operators_approval_is_recorded(self, job) -> None:
        ada = world.operator_with("operate_ingestionjob", name="ada")
        assert stuck.approve_recovery(type(job), "j1", actor=ada).state == "pending"
        event = world.last_event(assert_consistent(job))
        assert event["metadata"]["approved_by"] == "ada"
        assert event["reason"] == "fail and retry, approved by ada"

    def test_a_recovery_may_be_proposed_before_the_deadline(self, settings) -> None:
        settings.STATECORE_RECOVERY = {"supervised_job": "approval"}
        worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
        job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
        job = world.fire(job, "allocate_resources", workers=["sw1"])
        assert stuck.list_stuck() == []
        world.fire(worker, "terminate")
        assert stuck.recover_stalled() == 0
        (item,) = stuck.list_stuck()
        assert (item.kind, item.recovery.action) == ("needs approval", "replace the lost workers")
        job = stuck.approve_recovery(type(job), job.pk, actor=world.operator())
        assert job.allocated_workers != ["sw1"]

    def test_a_scheduled_retry_needs_no_approval(self, later, settings) -> None:
        settings.STATECORE_RECOVERY = {"agent_job": "approval"}
        job = world.fire(world.fire(world.created("AgentJob"), "job_leased"), "job_retry_scheduled", delay_seconds=9)
        later(seconds=9)
        assert recover(job).state == "queued"

    def test_a_recovery_cannot_be_approved_twice(self, job) -> None:
        stuck.approve_recovery(type(job), "j1", actor=world.operator())
        with pytest.raises(GuardFailed) as refusal:
            stuck.approve_recovery(type(job), "j1", actor=world.operator())
        assert refusal.value.unmet[0].code == "nothing_to_recover"

    def test_approval_requires_the_operate_permission(self, job) -> None:
        for actor in (world.AGENT, world.operator_with(name="eve")):
            with pytest.raises(PermissionDenied):
                stuck.approve_recovery(type(job), "j1", actor=actor)
        assert assert_consistent(job).state == "running"

    def test_other_machines_are_still_recovered_automatically(self, job, later) -> None:
        worker = world.created("UetWorker", worker_type="executor")
        later(minutes=3)
        assert recover(worker).state == "TERMINATED"


def test_a_sweep_recovers_at_most_its_limit(later) -> None:
    for _ in range(5):
        started_job()
    later(minutes=11)
    assert [stuck.recover_stalled(limit=2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_refused_recovery_does_not_block_the_others(later) -> None:
    jobs = [started_job() for _ in range(3)]
    later(minutes=11)

    def refuse(work: Any, changes: list[Any]) -> None:
        if jobs[0].pk in {change.entry.entity_id for change in changes}:
            raise ConstraintViolated("not this one", constraint="none")

    registry.reactions.append(("", refuse))
    try:
        assert stuck.recover_stalled() == 2
    finally:
        registry.reactions.remove(("", refuse))
    assert [assert_consistent(job).state for job in jobs] == ["running", "pending", "pending"]


@pytest.mark.django_db(transaction=True)
def test_concurrent_sweeps_recover_each_row_once(later) -> None:
    jobs = [started_job() for _ in range(12)]
    later(minutes=11)
    assert sum(run_concurrently([stuck.recover_stalled] * 4)) == len(jobs)
    assert {tuple(path(assert_consistent(job))[-2:]) for job in jobs} == {(("fail", "failed"), ("retry", "pending"))}
