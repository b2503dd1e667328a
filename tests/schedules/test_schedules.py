"""Schedules: occurrences in time zones, outages, overlaps, pauses, and one run for each occurrence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import takewhile
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import connection, transaction

from statecore.journal import Event
from statecore.journal.accounts import Action
from statecore.kernel.refusals import DuplicateId, Invalid, PermissionDenied, TerminalState
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.records import Phase, PlanTemplate, Schedule, ScheduleOccurrence
from statecore.records.schedule import iter_occurrences
from statecore.scheduling import occurrences, schedules, templates
from statecore.scheduling.plans import submit_plan
from tests.races.contest import operator
from tests.support import world
from tests.work.crowd import at_once

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 23, tzinfo=UTC)  # a Monday; on the 29th Berlin changes to summer time
AT = "2026-03-23T01:00:00.000000Z"
PARAMETERS = {"branch": {"type": "string", "default": "main"}, "seconds": {"type": "integer", "default": 60}}
PLAN = {
    "phase": "PH",
    "workstreams": [
        {
            "id": "build",
            "tasks": [
                {"id": "make", "payload": {"branch": "${branch}"}, "timeout_sec": {"$parameter": "seconds"}},
                {"id": "test", "depends_on": ["make"], "payload": {"of": "${run}"}},
            ],
        }
    ],
}


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def template(clock: Any) -> None:
    Phase.objects.create(id="PH")
    templates.store("nightly", plan=PLAN, parameters=PARAMETERS, actor=operator())


def add(name: str = "s", cron: str = "0 * * * *", **more: Any) -> Schedule:
    return schedules.create({"id": name, "template": "nightly", "cron": cron, **more}, actor=operator())


def outcomes() -> list[tuple[str, str]]:
    found = ScheduleOccurrence.objects.order_by("at").values_list("at", "outcome")
    return [(f"{at:%dT%H:%M}", outcome) for at, outcome in found]


# Runs


def test_a_schedule_submits_a_run_from_its_template(clock: Any, template: None) -> None:
    add(parameters={"branch": "release"})
    assert occurrences.run_due() == 0
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 1
    run = Run.objects.get()
    assert (run.pk, run.state) == ("s-20260323T0100Z", "running")
    assert run.metadata == {"schedule": "s", "template": "nightly@1", "scheduled_at": "2026-03-23T01:00:00.000000Z"}
    make = Task.objects.get(pk=f"{run.pk}:make")
    assert (make.payload, make.timeout_sec, make.state) == ({"branch": "release"}, 60, "queued")
    assert Task.objects.get(pk=f"{run.pk}:test").payload == {"of": run.pk}
    assert occurrences.run_due() == 0
    assert integrity.check_all() == []


def test_a_run_that_has_not_ended_skips_the_next_occurrence_or_not(clock: Any, template: None) -> None:
    add("skips")
    add("allows", overlap="allow")
    for hour in (1, 2):
        clock.move_to(START + timedelta(hours=hour))
        occurrences.run_due()
    found = Counter(ScheduleOccurrence.objects.values_list("schedule", "outcome"))
    assert found == {("skips", "submitted"): 1, ("skips", "skipped"): 1, ("allows", "submitted"): 2}


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("all", [("23T01:00", "submitted"), ("23T02:00", "submitted"), ("23T03:00", "submitted")]),
        ("latest", [("23T03:00", "submitted")]),
        ("none", [("23T03:00", "missed")]),
    ],
)
def test_after_an_outage_the_schedule_catches_up_as_it_says(
    clock: Any, template: None, catch_up: str, expected: list[Any]
) -> None:
    add(catch_up=catch_up, overlap="allow")
    clock.move_to(START + timedelta(hours=3, minutes=30))
    occurrences.run_due()
    assert outcomes() == expected
    clock.move_to(START + timedelta(hours=4))
    occurrences.run_due()
    assert outcomes() == [*expected, ("23T04:00", "submitted")]


def test_a_paused_schedule_does_not_occur(clock: Any, template: None) -> None:
    add()
    schedules.pause("s", reason="maintenance", actor=operator())
    with pytest.raises(TerminalState):
        schedules.pause("s", reason="again", actor=operator())
    clock.move_to(START + timedelta(hours=5))
    assert occurrences.run_due() == 0
    assert schedules.get("s").as_dict()["pause_reason"] == "maintenance"
    schedules.resume("s", reason="done", actor=operator())
    clock.move_to(START + timedelta(hours=6))
    assert occurrences.run_due() == 1
    entries = (
        Event.objects.filter(trigger__startswith="schedule_").order_by("event_id").values_list("trigger", flat=True)
    )
    assert sorted(entries) == ["schedule_created", "schedule_paused", "schedule_resumed"]


def test_a_pause_leaves_out_what_is_due_but_not_what_an_operator_requested(clock: Any, template: None) -> None:
    add(catch_up="all", overlap="allow")
    clock.move_to(START + timedelta(hours=2))
    occurrences.notice_due()
    clock.move_to(START + timedelta(hours=2, minutes=1))
    schedules.run_now("s", actor=operator())
    schedules.pause("s", reason="too many", actor=operator())
    assert occurrences.run_due() == 1
    assert outcomes() == [("23T01:00", "skipped"), ("23T02:00", "skipped"), ("23T02:01", "submitted")]


def test_a_change_keeps_the_occurrences_that_no_sweep_has_noticed_yet(clock: Any, template: None) -> None:
    add(catch_up="all", overlap="allow")
    clock.move_to(START + timedelta(hours=2, minutes=1))
    schedules.change("s", {"cron": "30 * * * *"}, actor=operator())
    clock.move_to(START + timedelta(hours=2, minutes=30))
    assert occurrences.run_due() == 3
    assert [at for at, _outcome in outcomes()] == ["23T01:00", "23T02:00", "23T02:30"]


def test_a_schedule_ends_after_its_last_time(clock: Any, template: None) -> None:
    add(not_after=START + timedelta(hours=2), overlap="allow", catch_up="all")
    clock.move_to(START + timedelta(hours=9))
    assert occurrences.run_due() == 2
    assert Schedule.objects.get().next_at is None


def test_a_schedule_can_be_run_now(clock: Any, template: None) -> None:
    add()
    schedules.run_now("s", actor=operator("ada"))
    assert occurrences.run_due() == 1
    assert ScheduleOccurrence.objects.get().requested_by == "ada"


def test_a_plan_that_is_refused_is_recorded(clock: Any, template: None) -> None:
    plan = {**PLAN, "phase": "gone"}
    templates.store("broken", plan=plan, actor=operator(), parameters=PARAMETERS)
    add(template="broken")
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 0
    found = ScheduleOccurrence.objects.get()
    assert found.outcome == "failed"
    assert "gone" in found.detail


def test_an_occurrence_that_cannot_be_handled_fails_and_does_not_stop_the_others(clock: Any, template: None) -> None:
    """A template of an earlier version, which was stored without today's checks."""
    plan = {**PLAN, "metadata": "text"}
    old = PlanTemplate(template="old", version=1, plan=plan, parameters=PARAMETERS, created_by="ada", created_at=START)
    with transaction.atomic():
        old.insert(Action.TEMPLATE_STORED, actor=operator(), facts={})
    add("a", template="old")
    add("b")
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 1
    assert dict(ScheduleOccurrence.objects.values_list("schedule", "outcome")) == {"a": "failed", "b": "submitted"}


def test_a_new_version_is_used_unless_the_schedule_names_one(clock: Any, template: None) -> None:
    add("newest")
    add("first", template_version=1)
    templates.store("nightly", plan=PLAN, parameters=PARAMETERS, actor=operator(), is_new=False)
    clock.move_to(START + timedelta(hours=1))
    occurrences.run_due()
    found = dict(ScheduleOccurrence.objects.values_list("schedule", "template_version"))
    assert found == {"newest": 2, "first": 1}


# Time zones


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        # 02:30 does not exist on the 29th of March, and is made up for at 03:00.
        ("30 2 * * *", datetime(2026, 3, 28, tzinfo=UTC), ["28T01:30", "29T01:00", "30T00:30"]),
        # 02:30 happens twice on the 25th of October.
        ("30 2 * * *", datetime(2026, 10, 24, tzinfo=UTC), ["24T00:30", "25T00:30", "26T01:30"]),
        # Every hour is every hour, whatever the clocks show.
        ("0 * * * *", datetime(2026, 3, 29, 0, tzinfo=UTC), ["29T01:00", "29T02:00", "29T03:00"]),
        ("0 * * * *", datetime(2026, 10, 25, 0, tzinfo=UTC), ["25T01:00", "25T02:00", "25T03:00"]),
    ],
)
def test_changes_of_summer_time(cron: str, start: datetime, expected: list[str]) -> None:
    found = iter_occurrences(cron, "Europe/Berlin", start)
    assert [f"{next(found):%dT%H:%M}" for _ in expected] == expected


def test_the_latest_occurrence_is_the_last_of_those_that_follow() -> None:
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        for cron in ("0 * * * *", "30 2 * * *"):
            forwards = [each for each, _ in zip(iter_occurrences(cron, zone, START), range(200), strict=False)]
            for each in forwards[::17]:
                assert next(iter_occurrences(cron, zone, each, reverse=True)) == each, (zone, cron)


def test_a_time_zone_that_is_gone_pauses_its_schedule_and_stops_no_other(clock: Any, template: None) -> None:
    for name in ("a", "gone", "z"):
        add(name, overlap="allow")
    Schedule.objects.filter(pk="gone").update(timezone="Mars/Base")  # as after an upgrade of the system's time zones
    assert schedules.get("gone").preview() == [START + timedelta(hours=1)]
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 3
    gone = schedules.get("gone")
    assert (gone.next_at, gone.paused_by) == (None, "system")
    assert "Mars/Base" in gone.pause_reason
    with pytest.raises(Invalid) as refused:
        schedules.resume("gone", reason="again", actor=operator())
    assert list(refused.value.facts["errors"]) == ["timezone"]
    schedules.change("gone", {"timezone": "Europe/Berlin"}, actor=operator())
    schedules.resume("gone", reason="again", actor=operator())
    clock.move_to(START + timedelta(hours=2))
    assert occurrences.run_due() == 3
    assert integrity.check_all() == []


# Ids


@pytest.mark.parametrize("taken", [Run, Workstream, Task])
def test_an_id_that_an_agent_takes_first_does_not_stop_the_run(clock: Any, template: None, taken: Any) -> None:
    add(overlap="allow")
    run_id = "s-20260323T0100Z"
    plan = {"id": run_id if taken is Run else "other", "phase": "PH", "metadata": {"schedule": "s", "scheduled_at": AT}}
    task = {"id": f"{run_id}:make" if taken is Task else "t"}
    parts = [{"id": f"{run_id}:build" if taken is Workstream else "w", "tasks": [task]}]
    submit_plan({**plan, "workstreams": parts}, actor=world.AGENT)
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 1
    occurrence = ScheduleOccurrence.objects.get()
    assert (occurrence.outcome, occurrence.run_id != run_id) == ("submitted", True)
    assert run_id in occurrence.detail
    assert Task.objects.filter(pk__startswith=occurrence.run_id).count() == 2


def test_an_occurrence_that_is_restored_submits_no_second_run(clock: Any, template: None) -> None:
    add()
    clock.move_to(START + timedelta(hours=1))
    assert occurrences.run_due() == 1
    ScheduleOccurrence.objects.update(outcome="due", run_id="")
    occurrences.run_due()
    assert Run.objects.count() == 1
    assert ScheduleOccurrence.objects.get().run_id == "s-20260323T0100Z"


def test_the_longest_id_of_a_schedule_leaves_room_for_the_ids_of_its_runs(clock: Any, template: None) -> None:
    add("s" * 32, overlap="allow")
    schedules.run_now("s" * 32, actor=operator())
    assert occurrences.run_due() == 1


# Exactly once


class Killed(BaseException):
    """Ends a sweep as the death of its process does: the transaction is rolled back."""


SUBMITTED = 40  # occurrences of the simulated week whose runs are submitted too
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


def test_ten_thousand_schedules_over_a_week_with_kills_miss_and_double_none(clock: Any, template: None) -> None:
    """Each occurrence is noticed once, and each of some becomes one run, with kills at any write of a sweep."""
    made = [
        Schedule(
            id=f"s{number}", template="nightly", cron=f"{number % 60} {number % 24} * * {number % 7}",
            timezone=ZONES[number % 5], catch_up="all", overlap="allow", created_by="ada", created_at=START,
        )
        for number in range(10_000)
    ]  # fmt: skip
    for each in made:
        each.next_at = each.next_after(START)
    Schedule.objects.bulk_create(made, batch_size=500)
    end, chance = START + timedelta(days=7), Random(17)
    for step in range(1, 29):
        clock.move_to(START + timedelta(hours=6 * step))
        if step % 3 == 0:
            with pytest.raises(Killed), killed_after_write(chance.randint(1, 2)):
                occurrences.notice_due()
        while occurrences.notice_due():
            pass
    expected = [
        (each.pk, at)
        for each in made
        for at in takewhile(lambda at: at <= end, iter_occurrences(each.cron, each.timezone, START))
    ]
    assert len(expected) >= 10_000
    assert sorted(ScheduleOccurrence.objects.values_list("schedule", "at")) == sorted(expected)
    ScheduleOccurrence.objects.filter(pk__in=list_due()[SUBMITTED:]).delete()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as PostgreSQL does by itself in a week
    submit_with_kills(chance)


def list_due() -> list[int]:
    return list(ScheduleOccurrence.objects.filter(outcome="due").order_by("at", "pk").values_list("pk", flat=True))


def submit_with_kills(chance: Random) -> None:
    """Each sweep is killed while it submits one of its first runs, until nothing is due."""
    sweeps = 0
    while list_due():
        sweeps += 1
        try:
            with killed_after_write(chance.randint(1, 60)):
                occurrences.run_due()
        except Killed:
            pass
    assert sweeps > 5
    submitted = ScheduleOccurrence.objects.values_list("outcome", "run_id")
    assert {outcome for outcome, _run in submitted} == {"submitted"}
    assert sorted(Run.objects.values_list("pk", flat=True)) == sorted(run for _outcome, run in submitted)
    assert Run.objects.count() == SUBMITTED


@contextmanager
def killed_after_write(number: int) -> Iterator[None]:
    """Kills the process after this many statements that write, if it gets so far."""
    left = number

    def kill(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        nonlocal left
        result = execute(sql, params, many, context)
        if sql.lstrip("(").startswith(("INSERT", "UPDATE", "DELETE", "WITH")):
            left -= 1
            if left == 0:
                raise Killed
        return result

    with connection.execute_wrapper(kill):
        yield


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_submit_each_occurrence_once(clock: Any, template: None) -> None:
    for number in range(4):
        add(f"s{number}", overlap="allow", catch_up="all")
    clock.move_to(START + timedelta(hours=3))
    found = at_once(*(partial(sweep, START + timedelta(hours=3)) for _ in range(3)))
    assert [each for each in found if isinstance(each, Exception)] == []
    occurrences.run_due()
    assert Run.objects.count() == 12
    assert Counter(ScheduleOccurrence.objects.values_list("outcome", flat=True)) == {"submitted": 12}


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_submit_no_second_run_of_a_schedule_that_skips(clock: Any, template: None) -> None:
    for number in range(4):
        add(f"s{number}", catch_up="all")
    clock.move_to(START + timedelta(hours=3))
    at_once(*(partial(sweep, START + timedelta(hours=3)) for _ in range(4)))
    occurrences.run_due()
    assert Counter(ScheduleOccurrence.objects.values_list("outcome", flat=True)) == {"submitted": 4, "skipped": 8}


def sweep(at: datetime) -> int:
    return occurrences.run_due()


# Refusals


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"template": "gone"}, "template"),
        ({"template_version": 7}, "template"),
        ({"parameters": {"seconds": "60"}}, "parameters.seconds"),
        ({"parameters": {"other": 1}}, "parameters.other"),
        ({"catch_up": "some"}, "catch_up"),
        ({"id": "x" * 40}, "id"),
        ({"not_after": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "not_after"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(clock: Any, template: None, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(Invalid) as refused:
        add(**{"name": fields.pop("id", "s"), "cron": fields.pop("cron", "0 * * * *"), **fields})
    assert list(refused.value.facts["errors"]) == [name]


@pytest.mark.parametrize(
    ("plan", "parameters", "place"),
    [
        ({"workstreams": []}, {}, "plan.workstreams"),
        (PLAN, {"branch": PARAMETERS["branch"]}, "plan.parameters"),
        (PLAN, {"branch": {"type": "code"}}, "parameters.branch"),
        (PLAN, {"branch": {"type": "string", "default": 5}}, "parameters.branch"),
        (PLAN, {"__class__": {"type": "string"}}, "parameters.__class__"),
        ({**PLAN, "id": "mine"}, PARAMETERS, "plan"),
        ({**PLAN, "metadata": "text"}, PARAMETERS, "plan.metadata"),
        ({**PLAN, "metadata": {"a": "\0"}}, PARAMETERS, "plan"),
        ({**PLAN, "metadata": {"a": 2**64}}, PARAMETERS, "plan"),
        (PLAN, {"branch": {"type": ["string"]}}, "parameters.branch"),
        (PLAN, {"branch": {"type": "string", "description": "\0"}}, "parameters.branch"),
        (PLAN, {"branch": {"type": "string", "description": {}}}, "parameters.branch"),
    ],
)
def test_a_template_that_cannot_work_is_refused(clock: Any, plan: Any, parameters: Any, place: str) -> None:
    with pytest.raises(Invalid) as refused:
        templates.store("t", plan=plan, parameters=parameters, actor=operator())
    assert place in refused.value.facts["errors"]


def test_only_operators_with_the_permission_create_schedules(clock: Any, template: None) -> None:
    with pytest.raises(PermissionDenied):
        schedules.create({"template": "nightly", "cron": "0 * * * *"}, actor=world.AGENT)
    with pytest.raises(PermissionDenied):
        schedules.create({"template": "nightly", "cron": "0 * * * *"}, actor=world.operator_with("add_schedule"))
    add()
    with pytest.raises(DuplicateId):
        add()


def test_old_occurrences_are_deleted_but_the_last(clock: Any, template: None, settings: Any) -> None:
    add(catch_up="all", overlap="allow")
    clock.move_to(START + timedelta(hours=3))
    occurrences.run_due()
    clock.move_to(START + timedelta(days=91))
    assert occurrences.forget() == 2
    assert outcomes() == [("23T03:00", "submitted")]
