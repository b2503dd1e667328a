"""Why something does not move, in one sentence and link by link."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore import door, stuck
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import NotFound
from statecore.records import checkpoint
from statecore.stuck import chain, line
from tests.support import world

pytestmark = pytest.mark.django_db


def said(entity: Any) -> str:
    return stuck.explain(type(entity), entity.pk).sentence


def links(entity: Any) -> list[tuple[str, str]]:
    found = stuck.explain(type(entity), entity.pk).as_dict()["waiting_on"]
    return [(link["entity_id"], link["detail"]) for link in found]


def failed_gate(**fields: Any) -> Any:
    return world.fire(world.fire(world.gate(**fields), "gate_started"), "gate_failed", exit_code=1)


def blocked_on(task: Any) -> Any:
    return world.fire(task, "dependency_check_failed")


def failed_task(**fields: Any) -> Any:
    running = world.running_task(max_retries=0, **fields)
    return world.fire(running, "execution_failed", error="it broke", exit_code=1)


class TestTheSentencesOfTheBrief:
    def test_a_task_waits_for_one_that_a_failed_gate_blocks(self, later) -> None:
        workstream = world.workstream()
        blocked_on(world.task(id="t4", workstream=workstream, gates=[failed_gate(id="UNIT").pk]))
        t9 = blocked_on(world.task(id="t9", workstream=workstream, depends_on=["t4"]))
        later(minutes=12)

        assert said(t9) == "task t9 waits for t4, blocked by gate UNIT, failed 12 min ago with exit 1"
        assert links(t9) == [
            ("t9", "waits for t4"),
            ("t4", "blocked by gate UNIT"),
            ("UNIT", "failed 12 min ago with exit 1"),
        ]

    def test_a_queued_task_that_nobody_can_do(self, later) -> None:
        task = world.queued_task(required_capabilities=["git"])
        later(minutes=9)
        world.idle_worker(capabilities=["python"])

        assert said(task) == "queued 9 min: no live worker has `git`"

    def test_a_workstream_waits_for_one_that_failed(self, later) -> None:
        run = world.run()
        w1 = world.forced(world.workstream(id="w1", run=run), "failed")
        w2 = world.fire(world.workstream(id="w2", run=run, depends_on=[w1.pk]), "dependency_unsatisfied")

        assert said(w2) == "workstream w2 waits for w1, which failed: needs a decision"


class TestWhyNobodyTakesATask:
    def why(self, later, **fields: Any) -> str:
        task = world.queued_task(**fields)
        later(seconds=50)
        return said(task).removeprefix("queued 50 s: ")

    def test_nobody_is_there(self, later) -> None:
        world.worker(capabilities=["git"])
        assert self.why(later) == "there is no live worker"

    def test_those_who_are_there_are_silent(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        later(minutes=3)
        assert self.why(later, required_capabilities=["git"]) == "there is no live worker"

    def test_one_thing_that_nobody_can_is_named_alone(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        assert (
            self.why(later, required_capabilities=["git", "helm", "aider"]) == "no live worker has `helm` and `aider`"
        )

    def test_each_is_known_to_somebody_and_all_to_nobody(self, later) -> None:
        world.idle_worker(capabilities=["git"])
        world.idle_worker(capabilities=["helm"])
        assert self.why(later, required_capabilities=["git", "helm"]) == "no live worker has `git` and `helm` together"

    def test_who_can_belongs_elsewhere(self, later) -> None:
        workstream = world.workstream(id="w1")
        world.idle_worker(capabilities=["git"], affinity={"workstreams": ["w7"]})
        why = self.why(later, workstream=workstream, required_capabilities=["git"])
        assert why == "no live worker with `git` has affinity to workstream w1"

    def test_the_only_one_is_busy(self, later) -> None:
        world.fire(world.touched(world.idle_worker(id="ann"), current_load=1), "task_assigned")
        assert self.why(later) == "worker ann, the only one that could take it, is busy"

    def test_all_are_busy_or_full(self, later) -> None:
        world.fire(world.touched(world.idle_worker(), current_load=1), "task_assigned")
        world.touched(world.idle_worker(), current_load=1)
        assert self.why(later) == "all 2 workers that could take it are busy or full"

    def test_somebody_could_and_does_not_ask(self, later) -> None:
        world.idle_worker(id="ann")
        assert self.why(later) == "worker ann could take it and has not asked"


class TestTasks:
    def test_nothing_is_in_the_way(self, later) -> None:
        task = world.task(workstream=world.fire(world.workstream(), "tasks_created"))
        later(minutes=1)
        assert said(task) == "pending 1 min: nothing is in its way"

    def test_its_workstream_waits_for_a_run_that_nobody_started(self, later) -> None:
        task = world.task(id="t1", workstream=world.workstream(id="w1", run=world.run(id="r1")))
        later(hours=3)
        why = "task t1 waits for workstream w1, waits for run r1, pending 3 h: nobody has started it"
        assert said(task) == why

    def test_an_entry_gate_is_not_there_yet(self, later) -> None:
        task = blocked_on(world.task(id="t1", entry_gates=[world.fire(world.gate(id="LINT"), "gate_started").pk]))
        later(minutes=2)
        assert said(task) == "task t1 waits for gate LINT, running 2 min: its time-out is due in 28 min"

    def test_of_several_the_one_that_will_not_come_is_named(self, later) -> None:
        workstream = world.workstream()
        well, ill = world.task(workstream=workstream), failed_task(id="t4", workstream=workstream)
        task = blocked_on(world.task(id="t9", workstream=workstream, depends_on=[well.pk, ill.pk]))
        later(minutes=5)
        assert said(task) == "task t9 waits for t4, which failed 5 min ago with exit 1: needs a decision"
        assert stuck.explain(type(task), "t9").waiting_on[0].others == 1

    def test_at_work(self, later) -> None:
        task = world.running_task(by=world.idle_worker(id="ann"), timeout_sec=60)
        assert said(task) == "running 0 s on worker ann"
        later(seconds=90)
        assert said(task) == "running 1 min on worker ann, past its time-out of 1 min"

    def test_at_work_with_somebody_who_is_silent(self, later) -> None:
        task = world.running_task(id="t1", by=world.idle_worker(id="ann"))
        later(minutes=6)
        assert said(task) == "task t1 runs on worker ann, not heard from for 6 min"

    def test_in_validation_behind_a_patch(self, later) -> None:
        workstream = world.workstream()
        patch = world.patch(id="p1", workstream=workstream)
        task = world.forced(world.task(id="t1", workstream=workstream, patch=patch), "validating")
        assert said(task) == "task t1 waits for patch p1, created 0 s: it is not validated yet"

    def test_in_validation_with_nothing_in_the_way(self) -> None:
        assert said(world.forced(world.task(), "validating")) == "validating 0 s: nothing is in its way"

    def test_between_two_tries(self, settings) -> None:
        settings.STATECORE_RETRY_BASE_SECONDS = settings.STATECORE_RETRY_CAP_SECONDS = 100
        task = world.fire(world.running_task(), "execution_failed", error="it broke\nbadly")
        assert said(task).startswith("retrying after it broke: the next try is due in ")

    def test_what_has_ended_waits_for_nothing(self, later) -> None:
        task = failed_task()
        later(minutes=12)
        assert (said(task), links(task)) == ("failed 12 min ago with exit 1", [])

    def test_a_circle_is_walked_once(self) -> None:
        workstream = world.workstream()
        t1 = world.task(id="t1", workstream=workstream)
        t2 = world.task(id="t2", workstream=workstream, depends_on=["t1"])
        t1.depends_on.add(t2)
        assert said(t1) == "task t1 waits for t2, waits for t1, which waits for itself in the end"

    def test_a_long_line_is_told_to_its_root(self, django_assert_max_num_queries) -> None:
        gate = failed_gate(id="UNIT", workstream=(workstream := world.workstream()))
        task = blocked_on(world.task(id="first", workstream=workstream, gates=[gate.pk]))
        for number in range(60):
            task = world.task(workstream=workstream, depends_on=[task.pk])
            # Those of a run that has begun are blocked; those of one that has not are pending.
            task = blocked_on(task) if number % 2 else task
        with django_assert_max_num_queries(250):
            found = links(task)
        assert len(found) == 28
        assert found[25][1] == "waits through 34 more for first"
        assert [entity_id for entity_id, _detail in found[26:]] == ["first", "UNIT"]
        sentence = said(task)
        assert sentence.endswith(
            ", and 22 more, waits through 34 more for first, blocked by gate UNIT, failed 0 s ago with exit 1"
        )
        assert sentence.count("waits for") == 3

    @pytest.mark.parametrize("chosen", [{}, {30: "gates"}, {31: "entry_gates", 30: "entry_gates", 29: "entry_gates"}])
    def test_who_skips_a_line_comes_out_where_who_walks_it_does(
        self, later, monkeypatch, chosen: dict[int, str]
    ) -> None:
        workstream = world.workstream()
        tasks = [world.task(workstream=workstream)]
        for number in range(60):
            later(seconds=number % 3)
            before = [tasks[-1].pk, *(task.pk for task in tasks[-4:-1:2])]
            task = world.task(workstream=workstream, depends_on=before)
            tasks.append(blocked_on(task) if number % 2 else task)
        for place, link in chosen.items():
            gate = failed_gate(workstream=workstream)
            getattr(tasks[place], link).add(gate)
        monkeypatch.setattr(chain, "DEPTH", 1000)
        walked = links(tasks[-1])
        monkeypatch.setattr(chain, "DEPTH", 3)
        assert links(tasks[-1])[-1] == walked[-1]
        assert len(links(tasks[-1])) < len(walked)

    def test_a_chain_of_many_kinds_is_walked_so_far_only(self, monkeypatch) -> None:
        monkeypatch.setattr(chain, "MOST", 1)
        run = world.fire(world.run(id="r1"), "run_started")
        workstream = world.workstream(id="w1", run=run)
        failed_task(id="t4", workstream=workstream)
        world.forced(workstream, "executing")
        assert said(run) == "run r1 waits for workstream w1, and so on"

    def test_a_line_that_leads_round_in_a_circle_has_an_end(self, monkeypatch) -> None:
        monkeypatch.setattr(line, "MOST", 50)
        workstream = world.workstream()
        task = first = world.task(workstream=workstream)
        for _ in range(30):
            task = world.task(workstream=workstream, depends_on=[task.pk])
        first.depends_on.add(task)
        assert said(task).endswith("which waits for itself in the end")


class TestTheWhole:
    def test_a_run_waits_for_a_workstream_that_waits_for_a_failed_task(self, later) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        workstream = world.workstream(id="w1", run=run)
        failed_task(id="t4", workstream=workstream)
        world.forced(workstream, "executing")
        later(minutes=3)
        why = "waits for task t4, which failed 3 min ago with exit 1: needs a decision"
        assert said(workstream) == f"workstream w1 {why}"
        assert said(run) == f"run r1 waits for workstream w1, {why}"

    def test_a_run_waits_for_a_workstream_that_failed(self) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        world.forced(world.workstream(id="w1", run=run), "failed")
        assert said(run) == "run r1 waits for workstream w1, which failed: needs a decision"

    def test_what_was_retried_is_answered_for_by_its_successor(self) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        failed = world.forced(world.workstream(id="w1", run=run), "failed")
        heir = door.retry(type(failed), "w1", actor=THE_SYSTEM).entity
        assert said(run) == f"run r1 waits for workstream {heir.pk}, planned 0 s: nothing is in its way"

    def test_a_workstream_whose_tasks_are_not_all_there(self) -> None:
        assert said(world.workstream(expected_tasks=3)) == "planned 0 s: 0 of 3 tasks are created"

    def test_a_workstream_in_validation_waits_for_its_gates_and_patches(self) -> None:
        workstream = world.forced(world.workstream(id="w1"), "validating")
        patch = world.patch(id="p1", workstream=workstream)
        assert said(workstream) == "workstream w1 waits for patch p1, created 0 s: it is not validated yet"
        gate = failed_gate(id="UNIT", workstream=workstream)
        assert said(workstream) == "workstream w1 waits for gate UNIT, failed 0 s ago with exit 1"
        assert (patch.state, gate.state) == ("created", "FAILED")

    def test_an_empty_run_says_so(self) -> None:
        assert said(world.fire(world.run(), "run_started")) == "running 0 s: none of its workstreams is open"


class TestTheOthers:
    def test_a_gate_behind_a_gate(self) -> None:
        gate = world.gate(id="UNIT", depends_on=[failed_gate(id="LINT").pk])
        assert said(gate) == "gate UNIT blocked by LINT, failed 0 s ago with exit 1"
        assert said(world.gate()) == "pending 0 s: nobody has started it"

    def test_a_gate_of_a_workstream_that_ended(self) -> None:
        workstream = world.workstream(id="w1")
        gate, patch = world.gate(workstream=workstream), world.patch(workstream=workstream)
        world.forced(workstream, "failed")
        assert said(gate) == "pending 0 s: its workstream w1 has ended"
        assert said(patch) == "created 0 s: its workstream w1 has ended"

    def test_a_patch_its_phase_does_not_allow(self) -> None:
        patch = world.forced(world.patch(), "validated")
        type(patch.phase).objects.filter(pk=patch.phase_id).update(forbidden_paths=["*"])
        assert said(patch) == f"validated 0 s: a is forbidden in phase {patch.phase_id}"

    def test_a_patch_that_could_not_be_applied(self) -> None:
        patch = world.fire(world.forced(world.patch(), "queued"), "apply_failed", error="does not apply\nat all")
        assert said(patch) == "apply failed 0 s: does not apply"

    def test_workers_that_are_not_heard_from(self, later) -> None:
        worker, starting = world.idle_worker(), world.worker()
        assert said(worker) == "idle 0 s"
        later(minutes=5)
        assert said(worker) == "not heard from for 5 min"
        assert said(starting) == "initializing 5 min: it has not reported ready"

    def test_an_open_breaker(self, later) -> None:
        breaker = world.fire(
            world.touched(world.created("CircuitBreaker"), failure_count=5), "failure_threshold_exceeded"
        )
        later(seconds=20)
        assert said(breaker) == "open 20 s: 5 failures in a row; the next probe is due in 40 s"
        later(seconds=40)
        assert said(world.fire(breaker, "cooldown_expires")) == "half open 0 s: nobody has tried it out"

    def test_the_jobs(self, later) -> None:
        ingest = world.created("IngestionJob", max_attempts=1)
        assert said(ingest) == "pending 0 s: it waits in the queue until a worker takes it"
        ingest = world.fire(ingest, "start", worker="ann")
        assert said(ingest) == "running 0 s on ann"
        ingest = world.fire(ingest, "fail", error="no such file")
        assert said(ingest) == "failed 0 s: no such file; 1 of 1 attempts are used"

        waiting = world.fire(world.fire(world.created("AgentJob"), "job_leased"), "job_waiting", signal="approve")
        assert said(waiting) == "waiting 0 s for the signal approve"

        pipeline = world.fire(world.created("PipelineJob"), "materialize")
        assert said(pipeline) == "materializing 0 s: it has stored no checkpoint"
        checkpoint.store(pipeline.pk, "blocks", {"next_block": 7})
        later(minutes=4)
        assert said(pipeline) == "materializing 4 min: its checkpoint of blocks is 4 min old"

    def test_a_supervised_job_that_lost_its_worker(self) -> None:
        worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
        job = world.fire(world.created("SupervisedJob", id="sj1", task_description="sort"), "validate")
        assert said(job) == "pending 0 s: it waits for 1 workers"
        job = world.fire(job, "allocate_resources", workers=["sw1"])
        assert said(job) == "running 0 s on sw1"
        world.fire(worker, "terminate")
        assert said(job) == "supervised job sj1 runs on supervised worker sw1, terminated 0 s ago"


class TestTheMoves:
    def moves(self, entity: Any, **given: Any) -> dict[tuple[str, str], dict[str, Any]]:
        told = stuck.explain(type(entity), entity.pk, **given).as_dict()["moves"]
        return {(move["trigger"], move["to_state"]): move for move in told}

    def test_each_says_whether_it_is_allowed_and_what_is_in_its_way(self) -> None:
        workstream = world.workstream()
        other = world.task(id="t4", workstream=workstream)
        moves = self.moves(world.task(workstream=workstream, depends_on=[other.pk]))
        assert moves["scheduler_assigned", "queued"] == {
            "trigger": "scheduler_assigned",
            "to_state": "queued",
            "allowed": False,
            "kind": "normal",
            "unmet": [{"code": "dependency_unmet", "detail": "task t4 is pending, not completed", "entity": "t4"}],
            "actors": ["system"],
            "needs": [],
        }
        assert moves["dependency_check_failed", "blocked"]["allowed"]
        assert moves["gate_failed", "blocked"]["kind"] == "propagated"

    def test_what_only_the_caller_can_say_is_not_held_against_a_move(self) -> None:
        moves = self.moves(world.running_task())
        assert moves["execution_completed", "validating"]["allowed"]
        assert moves["execution_completed", "validating"]["needs"] == ["exit_code"]
        assert not moves["execution_failed", "failed"]["allowed"]

    def test_who_asks_matters(self) -> None:
        moves = self.moves(world.running_task(), actor=world.AGENT)
        assert moves["execution_completed", "validating"]["allowed"]
        assert moves["user_cancelled", "cancelled"]["unmet"] == [
            {"code": "permission_denied", "detail": "it takes operator, not agent"}
        ]
        nobody = world.operator_with(name="eve")
        assert not self.moves(world.running_task(), actor=nobody)["user_cancelled", "cancelled"]["allowed"]

    def test_what_was_retried_is_left_alone(self) -> None:
        failed = world.forced(world.created("AgentJob"), "failed")
        assert self.moves(failed)["job_requeued", "queued"]["allowed"]
        heir = door.retry(type(failed), failed.pk, actor=THE_SYSTEM).entity
        unmet = self.moves(failed)["job_requeued", "queued"]["unmet"]
        assert unmet == [{"code": "already_retried", "detail": f"it was retried as {heir.pk}", "entity": heir.pk}]

    def test_every_state_of_every_machine_is_explained_and_nothing_changes(self, clock) -> None:
        from tests.machines import worlds

        for flow in worlds.flows():
            for state in flow.states:
                entity = worlds.brought_to(flow, state, clock)
                before = world.trace(entity)
                told = stuck.explain(flow.model, entity.pk).as_dict()
                assert told["sentence"]
                assert {move["trigger"] for move in told["moves"]} == set(flow.allowed(state))
                assert bool(told["waiting_on"]) == (not flow.is_final(state))
                assert world.trace(entity) == before


@pytest.mark.parametrize("entity_id", ["nobody", "", "a\0b"])
def test_what_is_not_there_is_not_found(entity_id: str) -> None:
    with pytest.raises(NotFound):
        stuck.explain(world.model("Task"), entity_id)


class TestWhoSeesSomeMachinesOnly:
    """Neither a name nor a state of what they may not see, in the sentence, in the chain and in the moves."""

    def told(self, entity: Any, *sight: str) -> dict[str, Any]:
        return stuck.explain(type(entity), entity.pk, sight=sight).as_dict()

    def test_a_chain_ends_where_sight_ends(self) -> None:
        gate = failed_gate(id="gate-x")
        parent = world.workstream()
        first = world.task(id="t4", workstream=parent, gates=[gate.pk])
        task = world.task(id="t9", workstream=parent, depends_on=[first.pk])
        told = self.told(task, "task")
        assert told["sentence"] == "task t9 waits for t4, blocked by something you may not see"
        assert [link["entity_id"] for link in told["waiting_on"]] == ["t9", "t4"]
        assert "gate-x" not in str(told)
        assert "gate gate-x" in self.told(task, "task", "test_gate")["sentence"]

    def test_a_move_names_no_more(self) -> None:
        gate = world.gate(id="gate-x")
        task = world.task(entry_gates=[gate.pk])
        told = self.told(task, "task")
        (move,) = (move for move in told["moves"] if move["trigger"] == "scheduler_assigned")
        assert move["unmet"] == [{"code": "gate_not_passed", "detail": "it waits for something you may not see"}]
        (move,) = (move for move in self.told(task, "task", "test_gate")["moves"] if move["to_state"] == "queued")
        assert (move["unmet"][0]["entity"], move["unmet"][0]["entity_type"]) == ("gate-x", "test_gate")

    def test_nor_does_a_sentence_about_the_workers_there_are(self) -> None:
        worker = world.idle_worker(id="worker-x")
        task = world.queued_task()
        assert "worker worker-x could take it" in self.told(task, "task", "worker")["sentence"]
        told = self.told(task, "task")
        assert told["sentence"].endswith("it waits for something you may not see")
        assert worker.pk not in str(told)

    def test_what_is_stuck_neither(self, clock) -> None:
        gate = world.gate(id="gate-x")
        task = world.task(workstream=world.forced(world.workstream(), "ready"), entry_gates=[gate.pk])
        clock.shift(timedelta(hours=2))
        (item,) = stuck.stuck(sight={"task"})
        assert (item.entity.pk, "gate-x" in str(item.as_dict())) == (task.pk, False)
        assert "something you may not see" in item.why
        (item,) = stuck.stuck(entity_type="task")
        assert "gate-x" in item.why
        assert stuck.stuck(entity_type="task", sight={"run"}) == []
