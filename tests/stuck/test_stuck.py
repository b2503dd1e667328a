"""The list of stuck rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.refusals import NotFound
from statecore.machines.test_gate import TestGate
from statecore.reactions import abandoned
from statecore.read_models import stuck
from statecore.records import checkpoint
from statecore.scheduling import deadlines, expectations
from tests.machines import worlds
from tests.support import world

# A test puts each entity in the state that is overdue; reactions would move it out of that state.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]


def listed(**given: Any) -> list[tuple[str, str]]:
    return [(item.entity.pk, item.kind.value) for item in stuck.list_stuck(**given)]


def test_nothing_is_stuck_before_its_deadline(later) -> None:
    world.queued_task(workstream=world.workstream(id="w1"))
    later(minutes=10)
    assert listed() == []


def test_an_item_has_state_deadline_reason_and_suggested_action(later) -> None:
    world.queued_task(id="t1")
    later(minutes=12)
    (item,) = stuck.list_stuck()
    assert item.as_dict() == {
        "entity_type": "task",
        "id": "t1",
        "state": "queued",
        "kind": "overdue",
        "since": "2026-01-05T08:00:00.000000Z",
        "deadline_seconds": 600.0,
        "overdue_seconds": 120.0,
        "why": "queued 12 min: there is no live worker",
        "recovery": {"action": "user_cancelled or override", "mode": "operator"},
        "incident": None,
        "acknowledged_by": None,
        "acknowledged_at": None,
    }


def test_items_are_ordered_by_overdue_time_and_limited(later) -> None:
    for number in range(4):
        world.queued_task(id=f"t{number}")
        later(minutes=1)
    job = world.fire(world.created("IngestionJob", id="j1"), "start", worker="ann")
    later(minutes=11)
    assert [pk for pk, _kind in listed()] == ["t0", "t1", "t2", "t3", "j1"]
    assert [pk for pk, _kind in listed(limit=2)] == ["t0", "t1"]
    assert [pk for pk, _kind in listed(entity_type="ingestion_job")] == [job.pk]


def test_overdue_can_require_a_multiple_of_the_deadline(later) -> None:
    world.queued_task(id="t1")
    later(minutes=9)
    world.queued_task(id="t2")
    later(minutes=12)
    assert [pk for pk, _kind in listed()] == ["t1", "t2"]
    late = deadlines.select_stuck(registry.flow("task"), "queued", now(), 2)
    assert [task.pk for task in late] == ["t1"]


def test_tasks_of_a_workstream_that_has_not_started_are_not_overdue(later) -> None:
    waiting = world.task(workstream=world.workstream(id="w1"))
    started = world.task(workstream=world.fire(world.workstream(id="w2"), "tasks_created"))
    later(minutes=11)
    assert [pk for pk, _kind in listed(entity_type="task")] == [started.pk]
    later(days=1)
    assert ("w1", "overdue") in listed()
    assert (waiting.pk, "overdue") not in listed()


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(NotFound):
        stuck.list_stuck(entity_type="turnstile")


def test_a_setting_changes_a_deadline(later, settings) -> None:
    task = world.queued_task()
    later(minutes=2)
    assert listed() == []
    settings.STATECORE_DEADLINES = {"task.queued": 60.0}
    assert listed() == [(task.pk, "overdue")]


def test_a_setting_gives_a_deadline_to_a_resting_state(later, settings) -> None:
    job = world.created("IngestionJob")
    later(days=3)
    assert listed() == []
    settings.STATECORE_DEADLINES = {"ingestion_job.pending": 60.0}
    assert listed() == [(job.pk, "overdue")]


def test_a_workers_deadline_counts_from_its_heartbeat(later) -> None:
    silent, alive = world.idle_worker(), world.idle_worker()
    later(minutes=3)
    alive = world.touched(alive, last_heartbeat=silent.last_heartbeat.replace(minute=2))
    (item,) = stuck.list_stuck(entity_type="worker")
    assert (item.entity.pk, item.why) == (silent.pk, "last contact 3 min ago")


def test_every_active_state_with_a_deadline_is_found(clock, later) -> None:
    for flow in worlds.flows():
        for state in flow.states:
            if flow.is_final(state) or flow.deadline(state) is None:
                continue
            entity = worlds.bring_to(flow, state, clock)
            if (flow.entity_type, state) == ("task", "pending"):
                world.forced(entity.workstream, "executing")
            later(days=2)
            found = {item.entity.pk: item for item in stuck.list_stuck(limit=1000, entity_type=flow.entity_type)}
            assert entity.pk in found, (flow.entity_type, state)
            assert found[entity.pk].why


def test_gates_and_patches_of_a_finished_workstream_are_left_out(later) -> None:
    dead, live = world.workstream(), world.workstream()
    for workstream in (dead, live):
        world.gate(id=f"gate-{workstream.pk}", workstream=workstream)
        world.patch(id=f"patch-{workstream.pk}", workstream=workstream)
    world.forced(dead, "failed")
    later(hours=25)
    assert [pk for pk, _kind in listed(entity_type="test_gate")] == [f"gate-{live.pk}"]
    assert [pk for pk, _kind in listed(entity_type="patch_ledger")] == [f"patch-{live.pk}"]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_sweep_marks_a_gate_that_was_locked_when_its_workstream_ended() -> None:
    dead, live = world.workstream(), world.workstream()
    gates = [world.gate(workstream=each) for each in (dead, live)]

    def end() -> None:
        try:
            world.forced(dead, "failed")
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        TestGate.objects.select_for_update(no_key=True).get(pk=gates[0].pk)
        pool.submit(end).result(30)
    assert not TestGate.objects.filter(abandoned=True).exists()

    assert (abandoned.mark_overlooked(), abandoned.mark_overlooked()) == (1, 0)
    assert [gate.pk for gate in TestGate.objects.filter(abandoned=True)] == [gates[0].pk]


def test_the_sweep_marks_every_abandoned_part_in_batches(monkeypatch) -> None:
    monkeypatch.setattr(abandoned, "BATCH", 2)
    monkeypatch.setattr(abandoned, "_places", {})
    dead, live = world.workstream(), world.workstream()
    for workstream in (live, dead, live, dead, live):
        world.gate(workstream=workstream)
        world.patch(workstream=workstream)
    world.forced(dead, "failed")
    for model in abandoned.PARTS:  # as if they had been created while the workstream ended
        model.objects.update(abandoned=False)

    assert sum(abandoned.mark_overlooked() for _ in range(3)) == 4
    for model in abandoned.PARTS:
        assert {part.workstream_id for part in model.objects.filter(abandoned=True)} == {dead.pk}


def test_a_gate_that_ended_before_its_workstream_is_not_marked(later) -> None:
    workstream = world.workstream()
    passed = world.forced(world.gate(workstream=workstream), "PASSED")
    world.forced(workstream, "cancelled")
    assert not type(passed).objects.get(pk=passed.pk).abandoned


def test_a_breaker_within_its_cooldown_is_not_stuck(later) -> None:
    for name, seconds in (("slow", 3600), ("quick", 60)):
        breaker = world.touched(world.created("CircuitBreaker", id=name, cooldown_seconds=seconds), failure_count=5)
        world.fire(breaker, "failure_threshold_exceeded")
    later(minutes=10)
    assert [pk for pk, _kind in listed()] == ["quick"]


def test_a_checkpoint_resets_the_deadline_of_a_pipeline_job(later) -> None:
    job = world.fire(world.created("PipelineJob"), "analyze")
    later(minutes=31)
    assert listed() == [(job.pk, "overdue")]
    checkpoint.store(job.pk, "blocks", {"next_block": 7})
    assert listed() == []
    later(minutes=31)
    assert listed() == [(job.pk, "overdue")]


class TestDecisions:
    @pytest.mark.parametrize(("end", "verb"), [("failed", "failed"), ("cancelled", "was cancelled")])
    def test_a_run_with_a_failed_workstream_needs_a_decision_at_once(self, later, end: str, verb: str) -> None:
        run = world.fire(world.run(id="r1"), "run_started")
        world.forced(world.workstream(id="w1", run=run), end)
        later(seconds=5)
        (item,) = stuck.list_stuck()
        assert (item.entity.pk, item.kind, item.deadline) == ("r1", "needs a decision", None)
        assert item.why == f"run r1 waits for workstream w1, which {verb}: needs a decision"
        assert item.overdue.total_seconds() == 5
        assert item.recovery.action == "retry workstream w1 or run_canceled or override"

    @pytest.mark.parametrize("end", ["failed", "cancelled"])
    def test_a_workstream_with_a_failed_task_needs_a_decision(self, end: str) -> None:
        workstream = world.forced(world.workstream(id="w1"), "executing")
        lost = world.forced(world.task(id="t1", workstream=workstream), end)
        assert listed() == [("w1", "needs a decision")]
        transitions.retry(type(lost), "t1", actor=THE_SYSTEM)
        assert listed() == []

    @pytest.mark.parametrize("end", ["failed", "cancelled", "skipped"])
    def test_a_workstream_with_a_dead_dependency_needs_a_decision(self, end: str) -> None:
        run = world.run()
        dead = world.forced(world.workstream(run=run), end)
        world.workstream(id="w2", run=run, depends_on=[dead.pk])
        assert listed(entity_type="workstream") == [("w2", "needs a decision")]

    def test_a_finished_parent_needs_no_decision(self) -> None:
        workstream = world.forced(world.workstream(), "executing")
        world.forced(world.task(workstream=workstream), "failed")
        world.forced(workstream, "cancelled")
        assert listed() == []

    def test_a_needed_decision_replaces_the_overdue_item(self, later) -> None:
        workstream = world.forced(world.workstream(id="w1"), "executing")
        world.forced(world.task(workstream=workstream), "failed")
        later(hours=5)
        assert ("w1", "needs a decision") in listed()
        assert ("w1", "overdue") not in listed()


class TestPages:
    """Every row appears on exactly one page, also when many are due at the same moment."""

    def read_pages(self, size: int, **given: Any) -> list[tuple[str, str]]:
        shown, after = [], None
        while True:
            page = stuck.read_page(size, after=after, **given)
            shown += [(item.entity.pk, item.kind.value) for item in page.items]
            if page.next_cursor is None:
                return shown
            assert len(page.items) == size
            after = stuck.ListCursor.parse(str(page.next_cursor))

    @pytest.mark.parametrize("size", [7, 100])
    def test_the_pages_add_up_to_the_whole_list(self, clock, size: int) -> None:
        create_stuck_rows(range(3))
        clock.shift(timedelta(days=3))
        whole = listed(limit=1_000)
        assert len(whole) == len(set(whole)) > 30
        assert self.read_pages(size) == whole
        assert self.read_pages(size, entity_type="task") == listed(limit=1_000, entity_type="task")

    def test_an_overdue_row_that_needs_a_decision_is_listed_once(self, later) -> None:
        """Independent of which condition came first and of other failed parts."""
        for number, ends in enumerate([("failed", "cancelled"), ("cancelled", "failed"), ("failed",), ()] * 2):
            run = world.fire(world.run(id=f"r{number}"), "run_started")
            later(minutes=1 if number < 4 else 60 * 24)
            for end in ends:
                world.forced(world.workstream(run=run), end)
                later(minutes=1)
        later(days=2)
        whole = [("r3", "overdue"), ("r7", "overdue")]
        whole += [(f"r{number}", "needs a decision") for number in (0, 1, 2, 4, 5, 6)]
        for size in (1, 2, 3, 100):
            assert sorted(self.read_pages(size, entity_type="run")) == sorted(whole)

    def test_rows_that_need_approval_before_their_deadline_come_after_overdue_ones(self, later, settings) -> None:
        settings.STATECORE_RECOVERY = {"supervised_job": "approval"}
        lost = world.created("SupervisedWorker", workspace_id="space")
        for number in range(6):
            job = world.created("SupervisedJob", id=f"j{number}", task_description="sort")
            world.fire(world.fire(job, "validate"), "allocate_resources", workers=[lost.pk])
            if number == 2:
                later(minutes=45)
        world.fire(lost, "terminate")
        later(minutes=30)
        expected = [(f"j{number}", "needs approval") for number in range(6)]
        assert [item.overdue > timedelta() for item in stuck.list_stuck()] == [True] * 3 + [False] * 3
        for size in (1, 2, 4):
            assert self.read_pages(size) == expected

    def test_rows_that_become_stuck_while_paging_come_last(self, later) -> None:
        for number in range(4):
            world.queued_task(id=f"t{number}")
        later(minutes=9)
        world.queued_task(id="t9")
        later(minutes=2)
        first = stuck.read_page(2)
        later(minutes=9)
        rest = stuck.read_page(100, after=first.next_cursor)
        assert [item.entity.pk for item in [*first.items, *rest.items]] == ["t0", "t1", "t2", "t3", "t9"]

    @pytest.mark.parametrize(
        "text",
        ["", "x", ",,", "2026-01-05T08:00:00.000000Z,late task.queued", "1969-12-31T00:00:00.000000Z,late,t1",
         "9999-12-31T23:59:59.000000-23:59,late,t1", "2026-01-05T08:00:00.000000Z,late,\0"],
    )  # fmt: skip
    def test_an_invalid_cursor_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - each part has its own message
            stuck.ListCursor.parse(text)


# Number of queries


def create_stuck_rows(numbers: range) -> None:
    """Create tasks before, in and after the queue, their parents, gates, patches, workers and jobs.

    The ids make each run and workstream wait for the same part, so that each needs the same queries.
    """
    for number in numbers:
        run = world.fire(world.run(), "run_started")
        parent = world.forced(world.workstream(id=f"v{number}", run=run), "executing")
        gate = world.fire(world.fire(world.gate(), "gate_started"), "gate_failed", exit_code=1)
        first = world.task(id=f"a{number}", workstream=parent, gates=[gate.pk])
        world.task(id=f"b{number}", workstream=parent, depends_on=[first.pk], entry_gates=[gate.pk])
        world.queued_task(id=f"c{number}", workstream=parent, required_capabilities=["rare"])
        world.running_task(id=f"d{number}", workstream=parent)
        patch = world.patch(workstream=parent)
        world.forced(world.task(id=f"e{number}", workstream=parent, patch=patch.pk), "validating")
        world.workstream(id=f"w{number}", run=run, depends_on=[parent.pk])
        world.gate(depends_on=[gate.pk])
        world.created("AgentJob")
        world.created("IngestionJob")
        world.created("SupervisedJob", task_description="sort the files", depth=0)


def test_a_longer_list_takes_no_more_queries(clock) -> None:
    counts, shown = [], []
    for numbers in (range(5), range(5, 25)):
        create_stuck_rows(numbers)
        clock.shift(timedelta(days=3))
        expectations.cache.clear()
        with CaptureQueriesContext(connection) as queries:
            shown.append(len(stuck.list_stuck(10_000)))
        counts.append(len(queries))
    assert shown[1] == 5 * shown[0]
    assert shown[0] > 5 * 10
    assert counts[1] == counts[0], [query["sql"][:200] for query in queries]
