"""The explanation of a waiting row: one sentence, and the chain link by link."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import NotFound
from statecore.read_models import stuck
from statecore.read_models.stuck import chain, task_chain
from statecore.records import checkpoint
from tests.support import world

# A test puts each entity in the state to be explained; reactions would move it out of that state.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]


def sentence_of(entity: Any) -> str:
    return stuck.explain(type(entity), entity.pk).sentence


def links(entity: Any) -> list[tuple[str, str]]:
    found = stuck.explain(type(entity), entity.pk).as_dict()["waiting_on"]
    return [(link["entity_id"], link["detail"]) for link in found]


def failed_gate(**fields: Any) -> Any:
    return world.fire(world.fire(world.gate(**fields), "gate_started"), "gate_failed", exit_code=1)


def block(task: Any) -> Any:
    return world.fire(task, "dependency_check_failed")


def failed_task(**fields: Any) -> Any:
    running = world.running_task(max_retries=0, **fields)
    return world.fire(running, "execution_failed", error="it broke", exit_code=1)


class TestSentences:
    def test_a_task_waits_for_a_task_blocked_by_a_failed_gate(self, later) -> None:
        workstream = world.workstream()
        block(world.task(id="t4", workstream=workstream, gates=[failed_gate(id="UNIT").pk]))
        t9 = block(world.task(id="t9", workstream=workstream, depends_on=["t4"]))
        later(minutes=12)

        assert sentence_of(t9) == "task t9 waits for t4, blocked by gate UNIT, failed 12 min ago with exit 1"
        assert links(t9) == [
            ("t9", "waits for t4"),
            ("t4", "blocked by gate UNIT"),
            ("UNIT", "failed 12 min ago with exit 1"),
        ]

    def test_no_worker_has_the_capability_of_a_queued_task(self, later) -> None:
        task = world.queued_task(required_capabilities=["git"])
        later(minutes=9)
        world.idle_worker(capabilities=["python"])

        assert sentence_of(task) == "queued 9 min: no live worker has `git`"

    def test_a_workstream_waits_for_one_that_failed(self, later) -> None:
        run = world.run()
        w1 = world.forced(world.workstream(id="w1", run=run), "failed")
        w2 = world.fire(world.workstream(id="w2", run=run, depends_on=[w1.pk]), "dependency_unsatisfied")

        assert sentence_of(w2) == "workstream w2 waits for w1, which failed: needs a decision"


class TestQueuedTasks:
    def why(self, later, **fields: Any) -> str:
        task = world.queued_task(**fields)
        later(seconds=50)
        return sentence_of(task).removeprefix("queued 50 s: ")

    def test_no_worker_is_registered(self, later) -> None:
        world.worker(capabilities=["git"])
        assert self.why(later) == "there is no live worker"

    def test_all_workers_are_unresponsive(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        later(minutes=3)
        assert self.why(later, required_capabilities=["git"]) == "there is no live worker"

    def test_only_missing_capabilities_are_named(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        assert (
            self.why(later, required_capabilities=["git", "helm", "aider"]) == "no live worker has `helm` and `aider`"
        )

    def test_no_worker_has_all_capabilities_together(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        world.idle_worker(capabilities=["helm"])
        assert self.why(later, required_capabilities=["git", "helm"]) == "no live worker has `git` and `helm` together"

    def test_capable_workers_have_another_affinity(self, later) -> None:
        workstream = world.workstream(id="w1")
        world.idle_worker(capabilities=["git"], affinity={"workstreams": ["w7"]})
        why = self.why(later, workstream=workstream, required_capabilities=["git"])
        assert why == "no live worker with `git` has affinity to workstream w1"

    def test_the_only_capable_worker_is_busy(self, later) -> None:
        world.fire(world.touched(world.idle_worker(id="ann"), current_load=1), "task_assigned")
        assert self.why(later) == "the only suitable worker, ann, is busy"

    def test_all_capable_workers_are_busy_or_full(self, later) -> None:
        world.fire(world.touched(world.idle_worker(), current_load=1), "task_assigned")
        world.touched(world.idle_worker(), current_load=1)
        assert self.why(later) == "all 2 suitable workers are busy or full"

    def test_a_capable_idle_worker_does_not_claim(self, later) -> None:
        world.idle_worker(id="ann")
        assert self.why(later) == "worker ann could take it but has not claimed it"


class TestTasks:
    def test_a_pending_task_with_nothing_in_its_way(self, later) -> None:
        task = world.task(workstream=world.fire(world.workstream(), "tasks_created"))
        later(minutes=1)
        assert sentence_of(task) == "pending 1 min: nothing blocks it"

    def test_a_task_waits_for_a_run_that_was_not_started(self, later) -> None:
        task = world.task(id="t1", workstream=world.workstream(id="w1", run=world.run(id="r1")))
        later(hours=3)
        why = "task t1 waits for workstream w1, which waits for run r1, pending 3 h: not started yet"
        assert sentence_of(task) == why

    def test_a_task_waits_for_a_running_entry_gate(self, later) -> None:
        task = block(world.task(id="t1", entry_gates=[world.fire(world.gate(id="LINT"), "gate_started").pk]))
        later(minutes=2)
        assert sentence_of(task) == "task t1 waits for gate LINT, running 2 min: its timeout is due in 28 min"

    def test_a_failed_dependency_is_named_before_waiting_ones(self, later) -> None:
        workstream = world.workstream()
        healthy, failed = world.task(workstream=workstream), failed_task(id="t4", workstream=workstream)
        task = block(world.task(id="t9", workstream=workstream, depends_on=[healthy.pk, failed.pk]))
        later(minutes=5)
        assert sentence_of(task) == "task t9 waits for t4, which failed 5 min ago with exit 1: needs a decision"
        assert stuck.explain(type(task), "t9").waiting_on[0].others == 1

    def test_a_running_task_names_its_worker_and_timeout(self, later) -> None:
        task = world.running_task(by=world.idle_worker(id="ann"), timeout_sec=60)
        assert sentence_of(task) == "running 0 s on worker ann"
        later(seconds=90)
        assert sentence_of(task) == "running 1 min on worker ann, past its timeout of 1 min"

    def test_a_running_task_with_an_unresponsive_worker(self, later) -> None:
        task = world.running_task(id="t1", by=world.idle_worker(id="ann"))
        later(minutes=6)
        assert sentence_of(task) == "task t1 runs on worker ann, last contact 6 min ago"

    def test_a_validating_task_waits_for_its_patch(self, later) -> None:
        workstream = world.workstream()
        patch = world.patch(id="p1", workstream=workstream)
        task = world.forced(world.task(id="t1", workstream=workstream, patch=patch), "validating")
        assert sentence_of(task) == "task t1 waits for patch p1, created 0 s: not validated yet"

    def test_a_validating_task_with_nothing_in_its_way(self) -> None:
        assert sentence_of(world.forced(world.task(), "validating")) == "validating 0 s: nothing blocks it"

    def test_a_retrying_task_names_its_error_and_next_attempt(self, settings) -> None:
        settings.STATECORE_RETRY_BASE_SECONDS = settings.STATECORE_RETRY_CAP_SECONDS = 100
        task = world.fire(world.running_task(), "execution_failed", error="it broke\nbadly")
        assert sentence_of(task).startswith("retrying after it broke: the next attempt is due in ")

    def test_a_finished_task_waits_for_nothing(self, later) -> None:
        task = failed_task()
        later(minutes=12)
        assert (sentence_of(task), links(task)) == ("failed 12 min ago with exit 1", [])

    def test_a_cycle_is_followed_once(self) -> None:
        workstream = world.workstream()
        t1 = world.task(id="t1", workstream=workstream)
        t2 = world.task(id="t2", workstream=workstream, depends_on=["t1"])
        world.link(t1, "depends_on", t2)
        assert sentence_of(t1) == "task t1 waits for t2, which waits for t1, a circular dependency"

    def test_a_long_chain_is_explained_to_its_root(self, django_assert_max_num_queries) -> None:
        gate = failed_gate(id="UNIT", workstream=(workstream := world.workstream()))
        task = block(world.task(id="first", workstream=workstream, gates=[gate.pk]))
        for number in range(60):
            task = world.task(workstream=workstream, depends_on=[task.pk])
            # Tasks of a started run are blocked, tasks of other runs are pending.
            task = block(task) if number % 2 else task
        with django_assert_max_num_queries(250):
            found = links(task)
        assert len(found) == 28
        assert found[25][1] == "waits through 34 more tasks for first"
        assert [entity_id for entity_id, _detail in found[26:]] == ["first", "UNIT"]
        sentence = sentence_of(task)
        assert sentence.endswith(
            ", and 22 more, waits through 34 more tasks for first, blocked by gate UNIT, failed 0 s ago with exit 1"
        )
        assert sentence.count("waits for") == 3

    @pytest.mark.parametrize("chosen", [{}, {30: "gates"}, {31: "entry_gates", 30: "entry_gates", 29: "entry_gates"}])
    def test_skipping_a_long_chain_finds_the_same_root(self, later, monkeypatch, chosen: dict[int, str]) -> None:
        workstream = world.workstream()
        tasks = [world.task(workstream=workstream)]
        for number in range(60):
            later(seconds=number % 3)
            before = [tasks[-1].pk, *(task.pk for task in tasks[-4:-1:2])]
            task = world.task(workstream=workstream, depends_on=before)
            tasks.append(block(task) if number % 2 else task)
        for place, link in chosen.items():
            gate = failed_gate(workstream=workstream)
            world.link(tasks[place], link, gate)
        monkeypatch.setattr(chain, "SKIP_AFTER", 1000)
        walked = links(tasks[-1])
        monkeypatch.setattr(chain, "SKIP_AFTER", 3)
        assert links(tasks[-1])[-1] == walked[-1]
        assert len(links(tasks[-1])) < len(walked)

    def test_a_chain_across_machines_is_followed_to_its_limit(self, monkeypatch) -> None:
        monkeypatch.setattr(chain, "MAX_LINKS", 1)
        run = world.fire(world.run(id="r1"), "run_started")
        workstream = world.workstream(id="w1", run=run)
        failed_task(id="t4", workstream=workstream)
        world.forced(workstream, "executing")
        assert sentence_of(run) == "run r1 waits for workstream w1, and so on"

    def test_a_long_cycle_is_detected(self, monkeypatch) -> None:
        monkeypatch.setattr(task_chain, "MAX_LENGTH", 50)
        workstream = world.workstream()
        task = first = world.task(workstream=workstream)
        for _ in range(30):
            task = world.task(workstream=workstream, depends_on=[task.pk])
        world.link(first, "depends_on", task)
        assert sentence_of(task).endswith("a circular dependency")


class TestParents:
    def test_a_run_waits_for_a_workstream_that_waits_for_a_failed_task(self, later) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        workstream = world.workstream(id="w1", run=run)
        failed_task(id="t4", workstream=workstream)
        world.forced(workstream, "executing")
        later(minutes=3)
        why = "waits for task t4, which failed 3 min ago with exit 1: needs a decision"
        assert sentence_of(workstream) == f"workstream w1 {why}"
        assert sentence_of(run) == f"run r1 waits for workstream w1, which {why}"

    def test_a_run_waits_for_a_workstream_that_failed(self) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        world.forced(world.workstream(id="w1", run=run), "failed")
        assert sentence_of(run) == "run r1 waits for workstream w1, which failed: needs a decision"

    def test_a_retried_workstream_is_represented_by_its_successor(self) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        failed = world.forced(world.workstream(id="w1", run=run), "failed")
        successor = transitions.retry(type(failed), "w1", actor=THE_SYSTEM).entity
        assert sentence_of(run) == f"run r1 waits for workstream {successor.pk}, planned 0 s: nothing blocks it"

    def test_a_workstream_with_missing_tasks(self) -> None:
        assert sentence_of(world.workstream(expected_tasks=3)) == "planned 0 s: 0 of 3 tasks are created"

    def test_a_workstream_in_validation_waits_for_its_gates_and_patches(self) -> None:
        workstream = world.forced(world.workstream(id="w1"), "validating")
        patch = world.patch(id="p1", workstream=workstream)
        assert sentence_of(workstream) == "workstream w1 waits for patch p1, created 0 s: not validated yet"
        gate = failed_gate(id="UNIT", workstream=workstream)
        assert sentence_of(workstream) == "workstream w1 waits for gate UNIT, failed 0 s ago with exit 1"
        assert (patch.state, gate.state) == ("created", "FAILED")

    def test_a_run_without_open_workstreams(self) -> None:
        assert sentence_of(world.fire(world.run(), "run_started")) == "running 0 s: it has no unfinished workstream"


class TestOtherMachines:
    def test_a_gate_blocked_by_a_gate(self) -> None:
        gate = world.gate(id="UNIT", depends_on=[failed_gate(id="LINT").pk])
        assert sentence_of(gate) == "gate UNIT blocked by LINT, failed 0 s ago with exit 1"
        assert sentence_of(world.gate()) == "pending 0 s: not started yet"

    def test_a_gate_of_a_finished_workstream(self) -> None:
        workstream = world.workstream(id="w1")
        gate, patch = world.gate(workstream=workstream), world.patch(workstream=workstream)
        world.forced(workstream, "failed")
        assert sentence_of(gate) == "pending 0 s: its workstream w1 has ended"
        assert sentence_of(patch) == "created 0 s: its workstream w1 has ended"

    def test_a_patch_forbidden_by_its_phase(self) -> None:
        patch = world.forced(world.patch(), "validated")
        type(patch.phase).objects.filter(pk=patch.phase_id).update(forbidden_paths=["*"])
        assert sentence_of(patch) == f"validated 0 s: a is forbidden in phase {patch.phase_id}"

    def test_a_patch_that_could_not_be_applied(self) -> None:
        patch = world.fire(world.forced(world.patch(), "queued"), "apply_failed", error="does not apply\nat all")
        assert sentence_of(patch) == "apply failed 0 s: does not apply"

    def test_workers_without_a_recent_heartbeat(self, later) -> None:
        worker, starting = world.idle_worker(), world.worker()
        assert sentence_of(worker) == "idle 0 s"
        later(minutes=5)
        assert sentence_of(worker) == "last contact 5 min ago"
        assert sentence_of(starting) == "initializing 5 min: it has not reported ready"

    def test_an_open_breaker(self, later) -> None:
        breaker = world.fire(
            world.touched(world.created("CircuitBreaker"), failure_count=5), "failure_threshold_exceeded"
        )
        later(seconds=20)
        assert sentence_of(breaker) == "open 20 s: 5 failures in a row; the next trial call is due in 40 s"
        later(seconds=40)
        assert sentence_of(world.fire(breaker, "cooldown_expires")) == "half open 0 s: no trial call yet"

    def test_ingestion_agent_and_pipeline_jobs(self, later) -> None:
        ingest = world.created("IngestionJob", max_attempts=1)
        assert sentence_of(ingest) == "pending 0 s: it waits in the queue until a worker starts it"
        ingest = world.fire(ingest, "start", worker="ann")
        assert sentence_of(ingest) == "running 0 s on ann"
        ingest = world.fire(ingest, "fail", error="no such file")
        assert sentence_of(ingest) == "failed 0 s: no such file; 1 of 1 attempts used"

        waiting = world.fire(world.fire(world.created("AgentJob"), "job_leased"), "job_waiting", signal="approve")
        assert sentence_of(waiting) == "waiting 0 s for the signal approve"

        pipeline = world.fire(world.created("PipelineJob"), "materialize")
        assert sentence_of(pipeline) == "materializing 0 s: it has stored no checkpoint"
        checkpoint.store(pipeline.pk, "blocks", {"next_block": 7})
        later(minutes=4)
        assert sentence_of(pipeline) == "materializing 4 min: its last checkpoint (blocks) is 4 min old"

    def test_a_supervised_job_that_lost_its_worker(self) -> None:
        worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
        job = world.fire(world.created("SupervisedJob", id="sj1", task_description="sort"), "validate")
        assert sentence_of(job) == "pending 0 s: it waits for 1 worker"
        job = world.fire(job, "allocate_resources", workers=["sw1"])
        assert sentence_of(job) == "running 0 s on sw1"
        world.fire(worker, "terminate")
        assert sentence_of(job) == "supervised job sj1 runs on supervised worker sw1, terminated 0 s ago"


class TestTransitions:
    def transitions(self, entity: Any, **given: Any) -> dict[tuple[str, str], dict[str, Any]]:
        explanation = stuck.explain(type(entity), entity.pk, **given).as_dict()["transitions"]
        return {(check["trigger"], check["to_state"]): check for check in explanation}

    def test_each_transition_reports_whether_it_is_allowed_and_unmet_conditions(self) -> None:
        workstream = world.workstream()
        other = world.task(id="t4", workstream=workstream)
        transitions = self.transitions(world.task(workstream=workstream, depends_on=[other.pk]))
        assert transitions["scheduler_assigned", "queued"] == {
            "trigger": "scheduler_assigned",
            "to_state": "queued",
            "allowed": False,
            "kind": "normal",
            "unmet": [{"code": "dependency_unmet", "detail": "task t4 is pending, not completed", "entity": "t4"}],
            "actors": ["system"],
            "needs": [],
        }
        assert transitions["dependency_check_failed", "blocked"]["allowed"]
        assert transitions["gate_failed", "blocked"]["kind"] == "propagated"

    def test_parameters_of_the_caller_do_not_count_as_unmet(self) -> None:
        transitions = self.transitions(world.running_task())
        assert transitions["execution_completed", "validating"]["allowed"]
        assert transitions["execution_completed", "validating"]["needs"] == ["exit_code"]
        assert not transitions["execution_failed", "failed"]["allowed"]

    def test_the_actors_permissions_are_considered(self) -> None:
        transitions = self.transitions(world.running_task(), actor=world.AGENT)
        assert transitions["execution_completed", "validating"]["allowed"]
        assert transitions["user_cancelled", "cancelled"]["unmet"] == [
            {"code": "permission_denied", "detail": "operator only"}
        ]
        nobody = world.operator_with(name="eve")
        assert not self.transitions(world.running_task(), actor=nobody)["user_cancelled", "cancelled"]["allowed"]

    def test_a_retried_row_offers_no_further_transition(self) -> None:
        failed = world.forced(world.created("AgentJob"), "failed")
        assert self.transitions(failed)["job_requeued", "queued"]["allowed"]
        successor = transitions.retry(type(failed), failed.pk, actor=THE_SYSTEM).entity
        unmet = self.transitions(failed)["job_requeued", "queued"]["unmet"]
        assert unmet == [
            {"code": "already_retried", "detail": f"already retried as {successor.pk}", "entity": successor.pk}
        ]

    def test_every_state_of_every_machine_is_explained_without_changes(self, clock) -> None:
        from tests.machines import worlds

        for flow in worlds.flows():
            for state in flow.states:
                entity = worlds.bring_to(flow, state, clock)
                before = world.trace(entity)
                explanation = stuck.explain(flow.model, entity.pk).as_dict()
                assert explanation["sentence"]
                assert {each["trigger"] for each in explanation["transitions"]} == set(flow.allowed(state))
                assert bool(explanation["waiting_on"]) == (not flow.is_final(state))
                assert world.trace(entity) == before


@pytest.mark.parametrize("entity_id", ["nobody", "", "a\0b"])
def test_an_unknown_id_is_not_found(entity_id: str) -> None:
    with pytest.raises(NotFound):
        stuck.explain(world.model("Task"), entity_id)


class TestLimitedVisibility:
    """The sentence, the chain and the transitions reveal no id or state of machines the user may not view."""

    def explain(self, entity: Any, *sight: str) -> dict[str, Any]:
        return stuck.explain(type(entity), entity.pk, visible=sight).as_dict()

    def test_a_chain_ends_at_the_first_hidden_row(self) -> None:
        gate = failed_gate(id="gate-x")
        parent = world.workstream()
        first = world.task(id="t4", workstream=parent, gates=[gate.pk])
        task = world.task(id="t9", workstream=parent, depends_on=[first.pk])
        explanation = self.explain(task, "task")
        assert explanation["sentence"] == "task t9 waits for t4, blocked by an entity you cannot access"
        assert [link["entity_id"] for link in explanation["waiting_on"]] == ["t9", "t4"]
        assert "gate-x" not in str(explanation)
        assert "gate gate-x" in self.explain(task, "task", "test_gate")["sentence"]

    def test_transitions_name_no_hidden_row(self) -> None:
        gate = world.gate(id="gate-x")
        task = world.task(entry_gates=[gate.pk])
        explanation = self.explain(task, "task")
        (check,) = (each for each in explanation["transitions"] if each["trigger"] == "scheduler_assigned")
        assert check["unmet"] == [{"code": "gate_not_passed", "detail": "it waits for an entity you cannot access"}]
        explanation = self.explain(task, "task", "test_gate")
        (check,) = (each for each in explanation["transitions"] if each["to_state"] == "queued")
        assert (check["unmet"][0]["entity"], check["unmet"][0]["entity_type"]) == ("gate-x", "test_gate")

    def test_the_sentence_names_no_hidden_worker(self) -> None:
        worker = world.idle_worker(id="worker-x")
        task = world.queued_task()
        assert "worker worker-x could take it" in self.explain(task, "task", "worker")["sentence"]
        explanation = self.explain(task, "task")
        assert explanation["sentence"].endswith("it waits for an entity you cannot access")
        assert worker.pk not in str(explanation)

    def test_the_stuck_list_names_no_hidden_row(self, clock) -> None:
        gate = world.gate(id="gate-x")
        task = world.task(workstream=world.forced(world.workstream(), "ready"), entry_gates=[gate.pk])
        clock.shift(timedelta(hours=2))
        (item,) = stuck.list_stuck(visible={"task"})
        assert (item.entity.pk, "gate-x" in str(item.as_dict())) == (task.pk, False)
        assert "an entity you cannot access" in item.why
        (item,) = stuck.list_stuck(entity_type="task")
        assert "gate-x" in item.why
        assert stuck.list_stuck(entity_type="task", visible={"run"}) == []
