"""Retrying a final entity: it stays as it is, and a successor replaces it."""

from collections.abc import Iterator

import pytest

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.refusals import AlreadyRetried, GuardFailed, InvalidTransition, NotFound, PermissionDenied
from tests.machines import worlds
from tests.machines.worlds import Clock
from tests.support import world
from tests.support.world import (
    events_of,
    fire,
    forced,
    last_event,
    operator,
    trace,
)

# A retry is tested for its direct effect; reactions would fail the workstream and the run.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]

FINAL = [(flow, state) for flow in worlds.flows() for state in sorted(flow.final)]
OPEN = [(flow, state) for flow in worlds.flows() for state in flow.states if state not in flow.final]


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


def named(cases: list) -> dict:
    return {"ids": [f"{flow.entity_type}: {state}" for flow, state in cases]}


def retry(entity, **details) -> transitions.Outcome:
    return transitions.retry(type(entity), entity.pk, **{"actor": operator(), **details})


def retried(entity):
    return retry(entity).entity


def ended(entity):
    """Ends the entity's children too: active children are not retried with their parent."""
    for name in entity.flow.succession.children:
        children = getattr(entity, name)
        for child in children.exclude(state__in=children.model.flow.final):
            forced(ended(child), {"test_gate": "FAILED"}.get(child.flow.entity_type, "cancelled"))
    return entity


def stored(entity):
    return type(entity).objects.get(pk=entity.pk)


def links(entity, name: str = "depends_on") -> set[str]:
    return set(getattr(entity, name).values_list("pk", flat=True))


@pytest.mark.parametrize(("flow", "state"), FINAL, **named(FINAL))
def test_retrying_a_final_entity_creates_a_successor(flow, state, clock) -> None:
    entity = ended(worlds.bring_to(flow, state, clock))
    row_before = trace(entity)[0]

    heir = retried(entity)

    assert (heir.state, heir.version, heir.attempt) == (flow.initial, 1, 0)
    assert heir.retry_of_id == entity.pk != heir.pk
    assert stored(heir).as_dict() == heir.as_dict()
    assert trace(entity)[0] == row_before


@pytest.mark.parametrize(("flow", "state"), FINAL, **named(FINAL))
def test_a_successor_carries_over_the_declared_fields(flow, state, clock) -> None:
    entity = ended(worlds.bring_to(flow, state, clock))
    world.touched(entity, metadata={"ticket": "OPS-1"})
    heir = stored(retried(entity))
    for name in flow.model.editable_fields() - set(flow.succession.leaves_behind):
        assert heir.as_dict()[name] == stored(entity).as_dict()[name]
    assert heir.metadata == {"ticket": "OPS-1"}


@pytest.mark.parametrize(("flow", "state"), OPEN, **named(OPEN))
def test_what_is_not_final_is_not_retried(flow, state, clock) -> None:
    entity = worlds.bring_to(flow, state, clock)
    before = trace(entity)
    with pytest.raises(InvalidTransition) as refused:
        retry(entity)
    assert refused.value.facts["state"] == state
    assert trace(entity) == before


def test_a_retry_is_the_creation_event_of_the_successor() -> None:
    task = forced(world.task(), "failed")
    heir = retry(task, reason="the disk was full", actor=operator("grace")).entity
    (event,) = events_of(heir)
    assert (event["kind"], event["trigger"], event["to_state"]) == ("created", "retried", "pending")
    assert (event["operator"], event["reason"]) == ("grace", "the disk was full")


def test_a_retried_agent_job_still_has_a_log_that_begins_with_an_opening() -> None:
    heir = retried(forced(world.created("AgentJob"), "failed"))
    assert last_event(heir)["to_state"] == "queued"


def test_a_successor_starts_with_initial_values(clock) -> None:
    task = worlds.bring_to(registry.flow("task"), "failed", clock)
    heir = retried(task)
    assert (heir.retry_count, heir.attempt, heir.last_error) == (0, 0, "")
    assert (heir.started_at, heir.completed_at, heir.exit_code, heir.worker_id) == (None,) * 4


def test_a_thing_is_retried_once() -> None:
    task = forced(world.task(), "failed")
    heir = retried(task)
    before = trace(task)
    with pytest.raises(AlreadyRetried) as refused:
        retry(task)
    assert refused.value.facts == {"successor": heir.pk, "state": "failed", "version": 2, "allowed": []}
    assert trace(task) == before


def test_a_successor_that_failed_too_is_retried_in_its_turn() -> None:
    first = forced(world.task(), "failed")
    second = forced(retried(first), "failed")
    assert retried(second).retry_of_id == second.pk


def test_an_unknown_id_is_not_found() -> None:
    with pytest.raises(NotFound):
        transitions.retry(world.model("Task"), "nowhere", actor=operator())


def test_a_retry_takes_the_permission_to_operate() -> None:
    task = forced(world.task(), "failed")
    with pytest.raises(PermissionDenied) as refused:
        retry(task, actor=world.operator_with("override_task"))
    assert refused.value.facts == {"required": "statecore.operate_task"}
    assert retry(task, actor=world.operator_with("operate_task", name="eve")).changed


def test_a_dry_run_shows_the_successor_and_keeps_nothing() -> None:
    task = forced(world.task(), "failed")
    before = trace(task)
    outcome = retry(task, dry_run=True)
    assert outcome.entity.retry_of_id == task.pk
    assert trace(task) == before
    assert type(task).objects.count() == 1


# Parents


def test_a_task_is_retried_in_a_live_workstream_only() -> None:
    task = forced(world.task(), "failed")
    forced(task.workstream, "failed")
    with pytest.raises(GuardFailed) as refused:
        retry(task)
    assert [reason.code for reason in refused.value.unmet] == ["workstream_final"]
    assert refused.value.unmet[0].entity == task.workstream_id


def test_a_workstream_is_retried_in_a_live_run_only() -> None:
    workstream = forced(world.workstream(), "failed")
    forced(workstream.run, "failed")
    with pytest.raises(GuardFailed) as refused:
        retry(workstream)
    assert [reason.code for reason in refused.value.unmet] == ["run_final"]


# Dependents


def test_what_waits_for_a_task_waits_for_its_successor() -> None:
    task = forced(world.task(), "failed")
    waiting = world.task(workstream=task.workstream, depends_on=[task.pk])
    heir = retried(task)
    assert links(waiting) == {heir.pk}
    forced(heir, "completed")
    assert fire(waiting, "scheduler_assigned").state == "queued"


def test_what_has_ended_keeps_its_dependencies() -> None:
    task = forced(world.task(), "failed")
    ended = forced(world.task(workstream=task.workstream, depends_on=[task.pk]), "cancelled")
    retried(task)
    assert links(ended) == {task.pk}


def test_a_successor_waits_for_what_the_old_one_waited_for() -> None:
    other, gate = world.task(), world.gate()
    task = world.task(workstream=other.workstream, depends_on=[other.pk], gates=[gate.pk], entry_gates=[gate.pk])
    heir = retried(forced(task, "failed"))
    assert (links(heir), links(heir, "gates"), links(heir, "entry_gates")) == ({other.pk}, {gate.pk}, {gate.pk})


def test_a_gate_is_run_again_as_a_successor_and_its_tasks_follow() -> None:
    gate = forced(world.gate(), "FAILED")
    task = world.task(gates=[gate.pk])
    waiting = world.gate(depends_on=[gate.pk])
    heir = retried(gate)
    assert links(task, "gates") == links(waiting) == {heir.pk}


def test_a_blocked_task_continues_once_the_gate_passes() -> None:
    gate = world.gate()
    task = world.task(entry_gates=[gate.pk])
    forced(gate, "FAILED")
    fire(task, "gate_failed")
    forced(retried(gate), "PASSED")
    assert fire(task, "dependency_satisfied").state == "pending"


def test_a_gate_of_a_workstream_is_retried_in_it() -> None:
    workstream = world.workstream()
    gate = forced(world.gate(workstream=workstream), "FAILED")
    heir = retried(gate)
    assert (heir.workstream_id, heir.run_id) == (workstream.pk, workstream.run_id)
    forced(heir, "PASSED")
    assert not workstream.gates.filter(successor=None).exclude(state="PASSED").exists()


def test_a_patch_is_retried_and_its_tasks_follow() -> None:
    patch = forced(world.patch(), "quarantined")
    task = world.task(workstream=patch.workstream, patch=patch)
    heir = retried(patch)
    assert stored(task).patch_id == heir.pk
    assert (heir.patch_id, heir.workstream_id) == (patch.patch_id, patch.workstream_id)


def test_what_depends_on_a_workstream_follows_its_successor() -> None:
    workstream = forced(world.workstream(), "failed")
    waiting = world.workstream(run=workstream.run, depends_on=[workstream.pk])
    assert links(waiting) == {workstream.pk}
    heir = retried(workstream)
    assert links(waiting) == {heir.pk}


# Parents with children


def test_a_workstream_is_retried_with_what_it_did_not_complete() -> None:
    workstream = world.workstream()
    done, failed, open_ = (world.task(workstream=workstream) for _ in range(3))
    forced(done, "completed")
    forced(failed, "failed")
    forced(open_, "cancelled")
    world.link(failed, "depends_on", done)
    world.link(open_, "depends_on", failed)
    outcome = retry(forced(workstream, "failed"))

    again = {task.retry_of_id: task for task in outcome.entity.tasks.all()}
    assert set(again) == {failed.pk, open_.pk}
    assert links(again[failed.pk]) == {done.pk}
    assert links(again[open_.pk]) == {again[failed.pk].pk}
    assert {entry.caused_by for entry in outcome.caused} == {outcome.entry.event_id}


def test_the_gates_of_a_retried_workstream_are_retried_with_it() -> None:
    workstream = world.workstream()
    gate = forced(world.gate(workstream=workstream), "FAILED")
    task = forced(world.task(workstream=workstream, gates=[gate.pk]), "failed")
    heir = retried(forced(workstream, "failed"))
    (gate_again,) = heir.gates.all()
    (task_again,) = heir.tasks.all()
    assert (gate_again.retry_of_id, task_again.retry_of_id) == (gate.pk, task.pk)
    assert links(task_again, "gates") == {gate_again.pk}


def test_a_task_that_was_retried_already_is_not_retried_twice() -> None:
    workstream = world.workstream()
    first = forced(world.task(workstream=workstream), "failed")
    second = forced(retried(first), "failed")
    heir = retried(forced(workstream, "failed"))
    assert [task.retry_of_id for task in heir.tasks.all()] == [second.pk]


def test_a_run_is_retried_with_what_it_did_not_complete() -> None:
    run = world.run()
    done, failed, later = (world.workstream(run=run) for _ in range(3))
    world.link(failed, "depends_on", done)
    world.link(later, "depends_on", failed)
    forced(world.task(workstream=failed, id="t-1"), "failed")
    forced(done, "completed")
    forced(failed, "failed")
    forced(later, "cancelled")
    outcome = retry(forced(run, "failed"))

    again = {workstream.retry_of_id: workstream for workstream in outcome.entity.workstreams.all()}
    assert set(again) == {failed.pk, later.pk}
    assert links(again[failed.pk]) == {done.pk}
    assert links(again[later.pk]) == {again[failed.pk].pk}
    assert [task.retry_of_id for task in again[failed.pk].tasks.all()] == ["t-1"]
    assert again[failed.pk].tasks.get().run_id == outcome.entity.pk


def test_a_run_with_active_work_is_not_retried() -> None:
    run = world.run()
    task = world.task(workstream=world.workstream(run=run))
    forced(task.workstream, "failed")
    with pytest.raises(GuardFailed) as refused:
        retry(forced(run, "canceled"))
    assert refused.value.unmet[0].entity == task.pk
    assert not type(run).objects.exclude(pk=run.pk).exists()


def test_a_successor_waits_for_the_successor_of_what_the_old_one_waited_for() -> None:
    first = world.task()
    second = world.task(workstream=first.workstream_id, depends_on=[first.pk])
    forced(second, "failed")
    newer = retried(forced(first, "failed"))
    assert links(retried(second)) == {newer.pk}


def test_a_new_dependent_of_a_retried_entity_waits_for_its_successor() -> None:
    first = forced(world.task(), "failed")
    newer = retried(first)
    assert links(world.task(workstream=first.workstream_id, depends_on=[first.pk])) == {newer.pk}


def test_a_parent_considers_the_successor_of_a_retried_child() -> None:
    workstream = forced(world.workstream(), "executing")
    task = forced(world.task(workstream=workstream, is_critical=True), "failed")
    forced(retried(task), "completed")
    with pytest.raises(GuardFailed):
        fire(workstream, "critical_task_failed")
    assert fire(workstream, "all_tasks_completed").state == "validating"


@pytest.mark.parametrize(
    ("name", "state", "trigger"), [("AgentJob", "failed", "job_requeued"), ("IngestionJob", "quarantined", "retry")]
)
def test_what_has_a_successor_stays_where_it_ended(name: str, state: str, trigger: str) -> None:
    job = forced(world.created(name), state)
    retried(job)
    with pytest.raises(AlreadyRetried):
        fire(job, trigger, actor=operator())
    with pytest.raises(AlreadyRetried):
        transitions.override(type(job), job.pk, {"AgentJob": "queued", "IngestionJob": "pending"}[name],
                      actor=operator(), reason="put it back to work", category="stuck")  # fmt: skip


def test_the_outcome_of_a_retried_run_lists_every_successor() -> None:
    run = world.run()
    workstream = world.workstream(run=run)
    forced(world.task(workstream=workstream), "cancelled")
    forced(workstream, "failed")
    outcome = retry(forced(run, "failed"))
    assert [entry.entity_type for entry in outcome.caused] == ["workstream", "task"]
    assert outcome.caused[1].caused_by == outcome.caused[0].event_id
    assert {entry.trigger for entry in outcome.caused} == {"retried"}


def test_a_skipped_workstream_is_not_retried_with_its_run() -> None:
    run = world.run()
    forced(world.workstream(run=run), "skipped")
    assert retried(forced(run, "failed")).workstreams.count() == 0


def test_a_retried_run_continues_automatically() -> None:
    run = world.run()
    forced(world.workstream(run=run), "failed")
    heir = retried(forced(run, "failed"))
    assert fire(heir, "run_started").state == "running"
    assert stored(run).state == "failed"
