"""Batch transitions: thousands of entities in a few statements, each changed or refused individually."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import journal, transitions
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.transitions.outcome import refusals_total
from statecore.transitions.write import PORTION
from tests.support import world
from tests.support.world import (
    AGENT,
    created,
    events_of,
    fire,
    last_event,
    operator,
    trace,
)

pytestmark = pytest.mark.django_db


def workers(number: int) -> list:
    return [created("Worker") for _ in range(number)]


def move_all(entities, trigger: str, **details) -> list[transitions.Item]:
    details = {"actor": THE_SYSTEM, **details}
    return transitions.transition_many(type(entities[0]), [entity.pk for entity in entities], trigger, **details)


def without_ids(event: dict) -> dict:
    own = ("event_id", "entity_id", "timestamp", "dwell_seconds", "prev_hash", "hash", "evidence", "evidence_before")
    metadata = {name: value for name, value in event["metadata"].items() if not name.endswith("seconds")}
    return {name: value for name, value in event.items() if name not in own} | {"metadata": metadata}


def test_a_batch_records_the_same_events_as_one_by_one() -> None:
    together, alone = created("Worker"), created("Worker")
    move_all([together, created("Worker")], "registration_completed", reason="a new shift", metadata={"rack": 7})
    transitions.transition(
        type(alone), alone.pk, "registration_completed", actor=THE_SYSTEM, reason="a new shift", metadata={"rack": 7}
    )
    assert without_ids(last_event(together)) == without_ids(last_event(alone))


def test_a_batch_writes_the_same_rows_as_one_by_one() -> None:
    together, alone = created("Worker"), created("Worker")
    (item,) = move_all([together], "registration_completed")
    fire(alone, "registration_completed")
    rows = [type(alone).objects.get(pk=worker.pk) for worker in (together, alone)]
    assert [(row.state, row.version, row.attempt) for row in rows] == [("idle", 2, 0)] * 2
    assert rows[0].as_dict() == item.outcome.entity.as_dict()


@pytest.mark.parametrize("number", [1, 2, PORTION, 2 * PORTION + 1])
def test_every_entity_of_a_batch_is_moved_and_chained(number) -> None:
    entities = workers(number)
    items = move_all(entities, "registration_completed")
    assert [item.entity_id for item in items] == [entity.pk for entity in entities]
    assert all(item.outcome.changed and item.refusal is None for item in items)
    for event in Event.objects.filter(sequence=2):
        assert event.hash == journal.digest(event.body)
    heads = dict(type(entities[0]).objects.values_list("pk", "chain_head"))
    assert heads == dict(Event.objects.filter(sequence=2).values_list("entity_id", "hash"))


def test_a_batch_takes_few_statements_however_large_it_is() -> None:
    counts = []
    for number in (10, 100):
        entities = workers(number)
        with CaptureQueriesContext(connection) as queries:
            move_all(entities, "registration_completed")
        counts.append(len(queries))
    assert counts[0] == counts[1] < 10


def test_each_entity_is_refused_individually() -> None:
    fresh, idle, shut = workers(3)
    fire(idle, "registration_completed")
    fire(shut, "registration_completed")
    fire(shut, "shutdown_requested")
    before = trace(idle)[0], trace(shut)[0]

    items = move_all([fresh, idle, shut, _named("nowhere")], "registration_completed")

    codes = [item.refusal and item.refusal.code for item in items]
    assert codes == [None, "already_in_state", "terminal_state", "not_found"]
    assert [item.outcome is None for item in items] == [False, True, True, True]
    assert (trace(idle)[0], trace(shut)[0]) == before


def _named(pk: str):
    return world.model("Worker")(id=pk)


def test_a_guard_refuses_the_one_it_does_not_hold_for() -> None:
    free, other = world.task(), world.task()
    waiting = world.task(workstream=other.workstream, depends_on=[other.pk])
    items = move_all([free, waiting], "scheduler_assigned")
    assert [item.refusal and item.refusal.code for item in items] == [None, "guard_failed"]
    assert items[1].refusal.unmet[0].entity == other.pk


def test_a_refusal_within_a_batch_is_counted() -> None:
    counter = refusals_total.labels("worker", "invalid_transition")
    before = counter._value.get()
    move_all(workers(2), "task_completed")
    assert counter._value.get() == before + 2


def test_an_actor_of_the_wrong_kind_moves_nothing() -> None:
    items = move_all(workers(2), "registration_completed", actor=operator())
    assert {item.refusal.code for item in items} == {"permission_denied"}


def test_an_operator_without_the_permission_moves_nothing() -> None:
    runs = [world.run(), world.run()]
    items = move_all(runs, "run_canceled", actor=world.operator_with("view_run"))
    assert {item.refusal.code for item in items} == {"permission_denied"}
    assert {run.state for run in type(runs[0]).objects.all()} == {"pending"}


def test_a_wrong_field_is_refused_for_each() -> None:
    items = move_all(workers(2), "registration_completed", params={"colour": "red"})
    assert {item.refusal.code for item in items} == {"invalid"}


def test_a_reason_that_cannot_be_kept_is_refused_as_a_whole() -> None:
    entities = workers(2)
    with pytest.raises(Invalid):
        move_all(entities, "registration_completed", reason="x" * 2001)
    assert Event.objects.count() == 2


def test_an_entity_named_twice_is_moved_once() -> None:
    worker = created("Worker")
    (item,) = move_all([worker, worker], "registration_completed")
    assert item.outcome.changed
    assert len(events_of(worker)) == 2


def test_an_empty_batch_returns_nothing() -> None:
    assert transitions.transition_many(world.model("Worker"), [], "registration_completed", actor=THE_SYSTEM) == []


def test_a_repeat_within_a_batch_changes_nothing_for_ingestion_jobs() -> None:
    running, pending = fire(created("IngestionJob"), "start", actor=AGENT), created("IngestionJob")
    items = move_all([running, pending], "start", actor=AGENT)
    assert [item.outcome.changed for item in items] == [False, True]
    assert len(events_of(running)) == 2


def test_one_trigger_can_lead_to_different_states() -> None:
    tired, fresh = world.running_task(), world.running_task()
    world.touched(tired, retry_count=tired.max_retries)
    items = move_all([tired, fresh], "execution_failed", params={"error": "power cut"})
    assert [item.outcome.entity.state for item in items] == ["failed", "retrying"]
    assert [last_event(task)["severity"] for task in (tired, fresh)] == ["error", "warning"]


def test_each_item_of_a_batch_lists_its_consequences(monkeypatch) -> None:
    entities, runs = workers(2), [world.run(), world.run()]
    follows = dict(zip((worker.pk for worker in entities), runs, strict=True))

    def start_a_run(work, change) -> None:
        if run := follows.get(change.entity.pk):
            transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work)

    monkeypatch.setattr(registry, "reactions", [("", world.reaction_per_change(start_a_run))])
    items = move_all(entities, "registration_completed")
    for item, run in zip(items, runs, strict=True):
        (caused,) = item.outcome.caused
        assert (caused.entity_id, caused.caused_by) == (run.pk, item.outcome.entry.event_id)


def test_a_batch_that_is_caused_is_propagated() -> None:
    cause = created("Worker"), world.run()
    entry = transitions.transition(type(cause[1]), cause[1].pk, "run_started", actor=AGENT).entry
    tasks = [world.task(), world.task()]
    move_all(tasks, "cascade_cancelled", cause=entry)
    assert {(last_event(task)["kind"], last_event(task)["caused_by"]) for task in tasks} == {
        ("propagated", entry.event_id)
    }


def test_a_dry_run_of_a_batch_leaves_nothing() -> None:
    entities = workers(3)
    before = [trace(entity) for entity in entities]
    items = move_all(entities, "registration_completed", dry_run=True)
    assert {item.outcome.entity.state for item in items} == {"idle"}
    assert [trace(entity) for entity in entities] == before


def test_a_reaction_that_fails_undoes_the_whole_batch(monkeypatch) -> None:
    entities = workers(2)
    before = [trace(entity) for entity in entities]

    def explode(work, change) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(registry, "reactions", [("", world.reaction_per_change(explode))])
    with pytest.raises(RuntimeError):
        move_all(entities, "registration_completed")
    assert [trace(entity) for entity in entities] == before


@pytest.mark.parametrize("others", [1, 2 * PORTION])
def test_a_row_that_the_database_refuses_is_refused_alone(others) -> None:
    """A constraint that no guard checks: a task ends after it started."""
    late = world.running_task()
    world.touched(late, started_at=late.started_at + timedelta(days=400), lease_expires_at=None)
    sound = [created("Task", workstream=late.workstream_id).pk for _ in range(others)]
    items = transitions.transition_many(Task, [*sound, late.pk], "cascade_cancelled", actor=THE_SYSTEM)
    assert [item.refusal and item.refusal.code for item in items] == [None] * others + ["constraint_violated"]
    assert Task.objects.filter(state="cancelled", pk__in=sound).count() == others
    assert Task.objects.get(pk=late.pk).state == "running"
