"""Bulk actions: each entity is treated as by the single call, in portions that survive a kill and can be stopped."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import scheduling
from statecore.bulk import Request, base, jobs, list_names, resolve
from statecore.bulk.actions import Override
from statecore.journal import Event
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid, PermissionDenied
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records import Approval, AuditNote, BulkPortion, Incident
from statecore.records.incident import IncidentEntity
from tests.support import world

pytestmark = pytest.mark.django_db

FORCED = {"reason": "seen to be wrong by hand", "category": "other"}


@pytest.fixture
def ada() -> User:
    return User.objects.create_superuser("ada")


def actor(user: User) -> Actor:
    return Actor.operator(user, Channel.CONSOLE)


def submit(tasks: int, run: str = "big", **workstream: Any) -> list[str]:
    """A started run with this many tasks, all queued."""
    world.phase()
    ids = [f"{run}-{number:05}" for number in range(tasks)]
    parts = [{"id": f"{run}-w", "tasks": [{"id": each} for each in ids], **workstream}]
    plan = {"id": run, "phase": world.phase().pk, "start": True, "workstreams": parts}
    scheduling.submit_plan(plan, actor=world.operator())
    return ids


def begin(ids: list[str], user: User, model: Any = Task, **request: Any) -> Any:
    return jobs.begin(resolve(model.flow, Request(**request)), ids, actor=actor(user), user=user, token=None)


def results(job: Any) -> list[dict[str, Any]]:
    portions = BulkPortion.objects.filter(job=job).order_by("number").values_list("results", flat=True)
    return [result for portion in portions for result in portion or []]


def test_queued_tasks_are_cancelled_and_then_retried(ada: User) -> None:
    ids = submit(200)
    cancelled = begin(ids, ada, action="cancel", reason="called off")
    jobs.run(cancelled.pk)
    cancelled.refresh_from_db()

    assert (cancelled.done, cancelled.refused, cancelled.changed) == (200, 0, 200)
    assert set(Task.objects.filter(pk__in=ids).values_list("state", flat=True)) == {"cancelled"}
    assert world.last_event(Task.objects.get(pk=ids[0]))["metadata"]["bulk_job"] == cancelled.pk

    retried = begin(ids, ada, action="retry", reason="needed after all")
    jobs.run(retried.pk)
    retried.refresh_from_db()
    assert (retried.done, retried.refused) == (200, 0), results(retried)[:2]
    assert Task.objects.filter(retry_of__in=ids).count() == 200


def test_a_killed_job_continues_without_repeating_anything(ada: User) -> None:
    ids = submit(120)
    job = begin(ids, ada, action="override", to_state="failed", **FORCED)
    jobs.run(job.pk, portions=1)  # killed after the first portion; the sweep resumes it
    job.refresh_from_db()
    assert (job.done, job.finished_at) == (Override.portion, None)
    jobs.run_due()
    job.refresh_from_db()

    assert (job.done, job.changed, job.finished_at is not None) == (120, 120, True)
    assert [result["id"] for result in results(job)] == ids
    assert Event.objects.filter(entity_id__in=ids, kind="override").count() == 120


def test_a_stopped_job_changes_nothing_more(ada: User) -> None:
    ids = submit(120)
    job = begin(ids, ada, action="override", to_state="failed", **FORCED)
    jobs.run(job.pk, portions=1)

    assert jobs.stop(job, actor(ada))
    jobs.run_due()

    job.refresh_from_db()
    assert (job.done, job.total, job.stopped_by) == (Override.portion, 120, "ada")
    assert Task.objects.filter(pk__in=ids, state="queued").count() == 120 - Override.portion
    assert not jobs.stop(job, actor(ada))


def test_policies_hold_for_each_entity(ada: User, settings: Any) -> None:
    """Those that a policy protects wait for a second person; the others are forced."""
    settings.STATECORE_SECOND_PERSON = {"task->completed"}
    ids = submit(3)
    job = begin(ids, ada, action="override", to_state="completed", **FORCED)
    jobs.run(job.pk)
    job.refresh_from_db()

    assert (job.approvals, job.changed, job.refused) == (3, 0, 0)
    assert {result["approval"] for result in results(job)} == set(Approval.objects.values_list("pk", flat=True))
    assert set(Task.objects.values_list("state", flat=True)) == {"queued"}


def test_the_preview_counts_what_follows_and_changes_nothing(ada: User) -> None:
    ids = submit(4, "one") + submit(3, "two")
    world.fire(Task.objects.get(pk=ids[0]), "user_cancelled", actor=world.operator())
    action = resolve(Run.flow, Request(action="cancel"))
    found = jobs.preview(action, ["one", "two", "nope"], actor(ada))

    assert (found.applicable, found.tried, found.refused) == (2, 2, 0)
    assert found.caused == [
        {"entity_type": "task", "to_state": "cancelled", "count": 6},
        {"entity_type": "workstream", "to_state": "cancelled", "count": 2},
    ]
    assert set(Run.objects.values_list("state", flat=True)) == {"running"}

    job = begin(["one", "two"], ada, Run, action="cancel")
    jobs.run(job.pk)
    job.refresh_from_db()
    assert job.caused == found.caused


def test_a_slow_preview_ends_after_a_while(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = submit(5)
    monkeypatch.setattr(base, "TRY_SECONDS", -1.0)
    override = resolve(Task.flow, Request(action="override", to_state="failed", **FORCED))
    found = jobs.preview(override, ids, actor(ada))
    assert (found.applicable, found.tried) == (5, 1)


def test_only_actions_that_apply_are_offered_with_how_many(ada: User) -> None:
    ids = submit(3)
    world.fire(Task.objects.get(pk=ids[0]), "user_cancelled", actor=world.operator())
    found = {
        (each.request.trigger or each.request.action, each.request.to_state): count
        for each, count in jobs.count_applicable(Task.flow, ids)
    }

    assert found["user_cancelled", ""] == 2
    assert found["retry", ""] == 1
    assert found["override", "failed"] == 2
    assert ("override", "queued") not in found
    assert jobs.count_applicable(Task.flow, ["nope"]) == []


def test_gates_are_waived_runs_paused_and_workers_drained(ada: User, settings: Any) -> None:
    gate = world.gate()
    waived = begin([gate.pk, "nope"], ada, TestGate, action="waive", **FORCED)
    submit(2, "pausable")
    paused = begin(["pausable"], ada, Run, action="pause", reason="a hand on it")
    busy, idle = world.running_task().worker_id, world.idle_worker().pk
    drained = begin([busy, idle], ada, Worker, action="drain", reason="the host goes away")
    for job in (waived, paused, drained):
        jobs.run(job.pk)
        job.refresh_from_db()

    assert [(job.changed, job.refused) for job in (waived, paused, drained)] == [(1, 1), (1, 0), (2, 0)]
    assert TestGate.objects.get(pk=gate.pk).waived
    assert Workstream.objects.get(run="pausable").state == "paused"
    assert paused.caused == [{"entity_type": "workstream", "to_state": "paused", "count": 1}]
    assert Worker.objects.get(pk=busy).draining
    assert Worker.objects.get(pk=idle).state == "shutdown"


def incident_of(*ids: str) -> Incident:
    at = now()
    found = Incident.objects.create(
        key=f"by hand {ids}", rule="stuck", severity="error", cause="no worker", since=at, opened_at=at,
        counts={"task": len(ids)},
    )  # fmt: skip
    fields = {"incident": found, "entity_type": "task", "kind": "overdue", "since": at, "due_at": at, "checked_at": at}
    for each in ids:
        IncidentEntity.objects.create(entity_id=each, **fields)
    return found


def test_the_incidents_of_entities_are_acknowledged_and_assigned_each_once(ada: User) -> None:
    ids = submit(4)
    both, one = incident_of(*ids[:2]), incident_of(ids[2])
    found = jobs.preview(resolve(Task.flow, Request(action="acknowledge")), ids, actor(ada))
    assert (found.applicable, found.refused) == (3, 0)
    assert Incident.objects.filter(acknowledged_at=None).count() == 2

    seen = begin(ids, ada, action="acknowledge", reason="on it")
    assigned = begin(ids[:2], ada, action="assign", params={"owner": "ada"})
    jobs.run(seen.pk), jobs.run(assigned.pk)
    both.refresh_from_db(), one.refresh_from_db(), seen.refresh_from_db()
    assert (seen.changed, seen.refused) == (3, 1)
    assert (both.acknowledged_by, one.acknowledged_by, both.owner) == ("ada", "ada", "ada")
    assert [entry.action for entry in both.history.order_by("pk")] == ["acknowledged"]
    again = resolve(Task.flow, Request(action="assign", params={"owner": "nobody"}))
    with pytest.raises(Invalid):
        again.apply(ids, actor=actor(ada))


def test_a_job_ends_with_the_permissions_of_its_user() -> None:
    """Also for what is no transition, so that no transition checks them again."""
    ids, bob = submit(2), User.objects.create_user("bob")
    needed = Permission.objects.filter(codename__in=("view_task", "operate_task", "change_incident"))
    bob.user_permissions.set(needed)
    found = incident_of(*ids)
    job = begin(ids, User.objects.get(pk=bob.pk), action="acknowledge")
    bob.user_permissions.remove(needed.get(codename="change_incident"))
    jobs.run(job.pk)
    job.refresh_from_db(), found.refresh_from_db()
    assert (job.refused, found.acknowledged_by) == (2, "")


def test_what_every_entity_would_refuse_is_refused_before_a_job_exists(ada: User) -> None:
    for request in (
        {"action": "override", "to_state": "failed"}, {"action": "override", "to_state": "x", **FORCED},
        {"action": "retry", "params": {"x": 1}}, {"action": "retry", "to_state": "failed"},
        {"action": "waive", **FORCED}, {"action": "drain"}, {"action": "cancel", "trigger": "user_cancelled"},
    ):  # fmt: skip
        with pytest.raises(Invalid):
            begin(["t"], ada, **request)
    viewer = User.objects.create_user("viewer")
    with pytest.raises(PermissionDenied):
        begin(["t"], viewer, action="override", to_state="failed", **FORCED)
    assert AuditNote.objects.filter(kind="override_refused").count() == 1
    assert list_names(Run.flow) == [
        "transition",
        "cancel",
        "retry",
        "override",
        "pause",
        "resume",
        "acknowledge",
        "assign",
    ]


@pytest.mark.parametrize(("request_", "most"), [({"action": "cancel"}, 1.0), ({"action": "retry"}, 40.0)])
def test_statements_are_bounded_by_the_portion(ada: User, request_: dict[str, Any], most: float) -> None:
    ids = submit(100)
    if request_["action"] == "retry":
        jobs.run(begin(ids, ada, action="cancel").pk)
    job = begin(ids, ada, **request_)
    with CaptureQueriesContext(connection) as queries:
        jobs.run(job.pk)

    assert len(queries) / len(ids) <= most
