"""What the system does about what is stuck, by itself or when an operator has approved it."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import agent_events, door, stuck
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.refusals import ConstraintViolated, GuardFailed, LeaseLost, PermissionDenied
from statecore.records import checkpoint
from statecore.stuck.recovery.plan import recoveries
from tests.races.records import is_whole, path
from tests.support import world
from tests.support.together import together

pytestmark = pytest.mark.django_db


def recovered(entity: Any, *, count: int = 1) -> Any:
    """The entity after a sweep, and the next sweep has nothing left to do."""
    assert stuck.recover_stalled() == count
    assert stuck.recover_stalled() == 0
    return is_whole(entity)


def untouched(entity: Any) -> bool:
    before = world.trace(entity)
    return stuck.recover_stalled() == 0 and world.trace(entity) == before


def started(**fields: Any) -> Any:
    return world.fire(world.created("IngestionJob", **fields), "start", worker="ann")


class TestIngestionJobs:
    def test_a_stalled_one_is_failed_and_pending_again_after_the_delay(self, later) -> None:
        job = started()
        later(minutes=10)
        assert untouched(job)
        later(seconds=1)
        job = recovered(job)
        assert (job.state, (job.run_after - now()).total_seconds()) == ("pending", 60)
        assert path(job)[-2:] == [("fail", "failed"), ("retry", "pending")]
        event = world.last_event(job)
        assert (event["actor"], event["reason"]) == ("system", "fail it and try it again")
        assert job.last_error == "stalled: nothing was heard of it for 10 min"

    def test_whoever_had_it_is_too_late(self, later) -> None:
        job = started()
        later(minutes=11)
        job = recovered(job)
        later(minutes=2)
        again = world.fire(job, "start", worker="ben")
        with pytest.raises(LeaseLost):
            world.fire(again, "succeed", actor=world.AGENT, attempt=1)

    def test_one_without_attempts_left_is_put_aside(self, later) -> None:
        job = started(max_attempts=1)
        later(minutes=11)
        assert recovered(job).state == "quarantined"

    @pytest.mark.parametrize(("attempts", "state"), [(3, "pending"), (1, "quarantined")])
    def test_a_failed_one_that_nobody_settles(self, later, attempts: int, state: str) -> None:
        job = world.fire(started(max_attempts=attempts), "fail", error="no such file")
        later(minutes=11)
        assert recovered(job).state == state


class TestAgentJobs:
    def leased(self) -> Any:
        return world.fire(world.created("AgentJob"), "job_leased", worker="ann")

    def test_one_whose_lease_ran_out_is_queued_again(self, later) -> None:
        job = self.leased()
        later(minutes=31)
        job = recovered(job)
        assert (job.state, job.worker_name, path(job)[-1]) == ("queued", "", ("job_requeued", "queued"))
        again = world.fire(job, "job_leased", worker="ben")
        with pytest.raises(LeaseLost):
            world.fire(again, "job_completed", actor=world.AGENT, attempt=1)

    def test_one_that_waits_is_parked_and_never_reclaimed(self, later) -> None:
        job = world.fire(self.leased(), "job_waiting", signal="approve")
        later(minutes=59)
        assert untouched(job)
        later(minutes=2)
        job = recovered(job)
        assert (job.state, job.waiting_for) == ("parked", "approve")
        later(days=300)
        assert untouched(job)
        assert list(agent_events.violations()) == []
        assert list(agent_events.disagreements()) == []

    def test_one_whose_next_try_is_due_is_queued(self, later) -> None:
        job = world.fire(self.leased(), "job_retry_scheduled", delay_seconds=90)
        later(seconds=89)
        assert untouched(job)
        later(seconds=1)
        assert recovered(job).state == "queued"


class TestSupervised:
    def running(self, *workers: str, **fields: Any) -> Any:
        job = world.created("SupervisedJob", task_description="sort", worker_count=len(workers), **fields)
        return world.fire(world.fire(job, "validate"), "allocate_resources", workers=[*workers])

    def worker(self, pk: str) -> Any:
        return world.fire(world.created("SupervisedWorker", id=pk, workspace_id="space"), "start_task")

    def test_a_worker_past_its_time_is_terminated(self, later) -> None:
        worker, paused = self.worker("sw1"), world.fire(self.worker("sw2"), "pause")
        later(hours=2)
        assert recovered(worker).state == "TERMINATED"
        assert is_whole(paused).state == "PAUSED"

    def test_a_job_past_its_time_is_canceled(self, later) -> None:
        job = self.running("elsewhere")
        later(hours=2)
        assert recovered(job).state == "CANCELED"

    def test_a_job_that_waits_for_workers_stays_pending(self, later) -> None:
        job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
        later(days=30)
        assert untouched(job)

    def test_a_submitted_job_is_validated(self, later) -> None:
        valid = world.created("SupervisedJob", task_description="sort")
        invalid = world.created("SupervisedJob")
        later(minutes=6)
        assert recovered(valid, count=2).state == "PENDING"
        invalid = is_whole(invalid)
        assert (invalid.state, invalid.last_error) == ("FAILED", "validate: task_description is empty")

    def test_a_job_that_lost_a_worker_goes_on_with_its_successor(self) -> None:
        lost, well = self.worker("sw1"), self.worker("sw2")
        job = self.running("sw1", "sw2")
        world.fire(lost, "error_unrecoverable", error="segmentation fault")
        job = recovered(job)
        heir = world.model("SupervisedWorker").objects.get(retry_of="sw1")
        assert (job.state, job.allocated_workers, heir.state) == ("RUNNING", [heir.pk, well.pk], "IDLE")
        assert world.last_event(heir)["reason"] == f"supervised job {job.pk} lost it"

    def test_a_successor_that_somebody_made_already_is_taken(self) -> None:
        lost = self.worker("sw1")
        job = self.running("sw1")
        world.fire(lost, "terminate")
        heir = door.retry(type(lost), "sw1", actor=world.operator()).entity
        assert recovered(job).allocated_workers == [heir.pk]

    def test_a_job_that_loses_its_worker_again_and_again_has_failed(self) -> None:
        self.worker("sw1")
        job = self.running("sw1")
        for _ in range(3):
            (current,) = type(job).objects.get(pk=job.pk).allocated_workers
            world.forced(world.model("SupervisedWorker").objects.get(pk=current), "FAILED")
            assert stuck.recover_stalled() == 1
        (current,) = type(job).objects.get(pk=job.pk).allocated_workers
        world.forced(world.model("SupervisedWorker").objects.get(pk=current), "FAILED")
        job = recovered(job)
        assert (job.state, job.last_error) == ("FAILED", "its workers were lost more than 3 times")


class TestPipelineJobs:
    def test_a_crashed_one_is_given_back_where_it_is(self, later) -> None:
        job = world.fire(world.created("PipelineJob"), "materialize")
        checkpoint.store(job.pk, "blocks", {"next_block": 7})
        later(hours=3)
        before = path(job)
        job = recovered(job)
        assert (job.state, job.resumed_at, path(job)) == ("MATERIALIZING", now(), before)
        kept = checkpoint.read(job.pk, "blocks")
        assert kept is not None
        assert kept.payload == {"next_block": 7}
        later(hours=3)
        assert recovered(job).resumed_at == now()

    def test_one_that_stores_checkpoints_is_left_alone(self, later) -> None:
        job = world.fire(world.created("PipelineJob"), "materialize")
        later(hours=3)
        checkpoint.store(job.pk, "blocks", {"next_block": 7})
        assert untouched(job)


class TestUetWorkers:
    def idle(self, **fields: Any) -> Any:
        return world.fire(world.created("UetWorker", worker_type="executor", **fields), "initialization_completed")

    def test_a_silent_one_is_given_up(self, later) -> None:
        idle, busy, heard = self.idle(), world.fire(self.idle(), "task_assigned"), self.idle()
        later(seconds=121)
        world.touched(heard, last_heartbeat=now())
        assert recovered(idle, count=2).state == "TERMINATED"
        assert path(busy)[-1] == ("worker_crashed", "TERMINATED")
        assert is_whole(busy).last_error == "no heartbeat for 2 min"
        assert is_whole(heard).state == "IDLE"

    def test_one_that_never_came_up_is_given_up(self, later) -> None:
        worker = world.created("UetWorker", worker_type="executor")
        later(minutes=3)
        assert path(recovered(worker))[-1] == ("spawn_failed", "TERMINATED")

    def test_one_that_drains_is_given_up_only_when_it_is_silent(self, later) -> None:
        worker = world.fire(world.fire(self.idle(), "task_assigned"), "shutdown_requested")
        later(minutes=31)
        world.touched(worker, last_heartbeat=now())
        assert untouched(worker)
        later(minutes=3)
        assert path(recovered(worker))[-1] == ("current_task_finished", "TERMINATED")

    def test_a_heartbeat_that_comes_just_in_time_saves_it(self, later) -> None:
        """Between being found and being locked."""
        worker = self.idle()
        later(minutes=3)
        (silent,) = [one for one in recoveries if one.entity_type == "uet_worker" and "IDLE" in one.states]
        assert silent.due(silent, now(), 10) == [worker.pk]
        worker = world.touched(worker, last_heartbeat=now())
        assert not silent.fits(worker, now())
        assert untouched(worker)


class TestApproval:
    @pytest.fixture
    def job(self, later, settings) -> Any:
        settings.STATECORE_RECOVERY = {"ingestion_job": "approval"}
        job = started(id="j1")
        later(minutes=11)
        return job

    def test_what_needs_approval_is_proposed_and_not_done(self, job) -> None:
        assert untouched(job)
        (item,) = stuck.stuck()
        assert (item.entity.pk, item.kind) == ("j1", "needs approval")
        assert item.recovery.as_dict() == {"action": "fail it and try it again", "mode": "approval"}

    def test_an_operator_approves_and_his_name_is_on_record(self, job) -> None:
        ada = world.operator_with("operate_ingestionjob", name="ada")
        assert stuck.approve_recovery(type(job), "j1", actor=ada).state == "pending"
        event = world.last_event(is_whole(job))
        assert event["metadata"]["approved_by"] == "ada"
        assert event["reason"] == "fail it and try it again, approved by ada"

    def test_what_is_not_late_yet_is_proposed_too(self, settings) -> None:
        settings.STATECORE_RECOVERY = {"supervised_job": "approval"}
        worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
        job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
        job = world.fire(job, "allocate_resources", workers=["sw1"])
        assert stuck.stuck() == []
        world.fire(worker, "terminate")
        assert stuck.recover_stalled() == 0
        (item,) = stuck.stuck()
        assert (item.kind, item.recovery.action) == ("needs approval", "replace the workers it lost")
        job = stuck.approve_recovery(type(job), job.pk, actor=world.operator())
        assert job.allocated_workers != ["sw1"]

    def test_a_next_try_that_was_promised_needs_no_approval(self, later, settings) -> None:
        settings.STATECORE_RECOVERY = {"agent_job": "approval"}
        job = world.fire(world.fire(world.created("AgentJob"), "job_leased"), "job_retry_scheduled", delay_seconds=9)
        later(seconds=9)
        assert recovered(job).state == "queued"

    def test_once_is_enough(self, job) -> None:
        stuck.approve_recovery(type(job), "j1", actor=world.operator())
        with pytest.raises(GuardFailed) as refusal:
            stuck.approve_recovery(type(job), "j1", actor=world.operator())
        assert refusal.value.unmet[0].code == "nothing_to_recover"

    def test_nobody_else_may(self, job) -> None:
        for actor in (world.AGENT, world.operator_with(name="eve")):
            with pytest.raises(PermissionDenied):
                stuck.approve_recovery(type(job), "j1", actor=actor)
        assert is_whole(job).state == "running"

    def test_another_machine_is_still_recovered_by_itself(self, job, later) -> None:
        worker = world.created("UetWorker", worker_type="executor")
        later(minutes=3)
        assert recovered(worker).state == "TERMINATED"


def test_a_sweep_takes_no_more_than_its_batch(later) -> None:
    for _ in range(5):
        started()
    later(minutes=11)
    assert [stuck.recover_stalled(limit=2) for _ in range(4)] == [2, 2, 1, 0]


def test_one_that_cannot_be_helped_does_not_hold_up_the_others(later) -> None:
    jobs = [started() for _ in range(3)]
    later(minutes=11)

    def refuse(change: Any) -> None:
        if change.entry.entity_id == jobs[0].pk:
            raise ConstraintViolated("not this one", constraint="none")

    registry.reactions.append(refuse)
    try:
        assert stuck.recover_stalled() == 2
    finally:
        registry.reactions.remove(refuse)
    assert [is_whole(job).state for job in jobs] == ["running", "pending", "pending"]


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_recover_each_once(later) -> None:
    jobs = [started() for _ in range(12)]
    later(minutes=11)
    assert sum(together([stuck.recover_stalled] * 4)) == len(jobs)
    assert {tuple(path(is_whole(job))[-2:]) for job in jobs} == {(("fail", "failed"), ("retry", "pending"))}
