"""A protected override is a request, which another person decides; each way around the policy is a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, connection, transaction

from statecore import transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel
from statecore.kernel.clock import now
from statecore.kernel.refusals import (
    AlreadyDecided,
    AlreadyRequested,
    ApprovalExpired,
    ApprovalRequired,
    Invalid,
    NotFound,
    PermissionDenied,
    SamePerson,
    StaleVersion,
)
from statecore.records import AlertNotice, Approval, ApprovalDecision, AuditNote, ForcedStep
from statecore.records.token import Token
from statecore.records.token import make as make_token
from statecore.transitions import approvals
from statecore.transitions.unit_of_work import RowsLocked
from tests.support import world
from tests.support.world import AGENT, REASON, fire, last_event, operator_with, trace

pytestmark = pytest.mark.django_db


def person(name: str, *groups: str) -> Actor:
    """A supervisor with an account, in the console."""
    user, _is_new = User.objects.get_or_create(username=name)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in ("supervisor", *groups)])
    return Actor.operator(User.objects.get(pk=user.pk), Channel.CONSOLE)


def force(entity: Any, to_state: str, actor: Actor, **more: Any) -> transitions.Outcome:
    given = {"actor": actor, "reason": REASON, "category": "stuck", **more}
    return transitions.override(type(entity), entity.pk, to_state, **given)


def request(entity: Any, to_state: str, actor: Actor, **more: Any) -> Approval:
    outcome = force(entity, to_state, actor, **more)
    assert outcome.entry is None
    return Approval.objects.get(pk=outcome.as_dict()["approval"]["id"])


@pytest.fixture
def policy(settings: Any) -> Any:
    def protect(*texts: str) -> None:
        settings.STATECORE_SECOND_PERSON = frozenset(texts)

    protect("run->succeeded")
    return protect


@pytest.fixture
def run(policy: Any) -> Any:
    return fire(world.run(), "run_started")


# The request


def test_a_protected_override_becomes_a_request_and_changes_nothing(run: Any) -> None:
    before = trace(run)
    made = force(run, "succeeded", person("ada")).as_dict()["approval"]
    assert trace(run) == before
    assert (made["status"], made["entity_type"], made["entity_id"], made["version"]) == ("pending", "run", run.pk, 2)
    assert (made["from_state"], made["to_state"], made["reason"]) == ("running", "succeeded", REASON)
    assert (made["requested_by"], made["policies"], made["decided_by"]) == ("ada", ["run->succeeded"], None)


def test_approving_executes_the_override_and_records_both_persons(run: Any) -> None:
    made = request(run, "succeeded", person("ada"), metadata={"ticket": "OPS-1"})
    outcome = approvals.approve(made.pk, actor=person("bob"), comment="checked the logs")
    assert outcome.entity is not None
    assert outcome.entity.state == "succeeded"
    event = last_event(run)
    assert (event["operator"], event["approver"], event["reason"]) == ("ada", "bob", REASON)
    assert (event["metadata"]["ticket"], event["metadata"]["approval"]) == ("OPS-1", made.pk)
    decided = approvals.get(made.pk).as_dict()
    assert (decided["status"], decided["decided_by"], decided["comment"]) == ("approved", "bob", "checked the logs")
    assert decided["event_id"] == event["event_id"]


def test_denying_changes_nothing_and_is_final(run: Any) -> None:
    made, before = request(run, "succeeded", person("ada")), trace(run)
    approvals.deny(made.pk, actor=person("bob"), comment="not yet")
    assert trace(run) == before
    assert approvals.get(made.pk).status == "denied"
    with pytest.raises(AlreadyDecided) as refused:
        approvals.approve(made.pk, actor=person("eve"))
    assert refused.value.facts["approval"]["decided_by"] == "bob"


def test_an_override_to_another_state_needs_no_one(run: Any) -> None:
    assert force(run, "failed", person("ada")).changed


def test_a_dry_run_needs_no_one(run: Any) -> None:
    outcome = force(run, "succeeded", person("ada"), dry_run=True)
    assert outcome.entry is not None
    assert not Approval.objects.exists()


def test_the_same_request_twice_is_refused_while_the_first_is_pending(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    with pytest.raises(AlreadyRequested) as refused:
        force(run, "succeeded", person("ada"))
    assert refused.value.facts["approval"]["id"] == made.pk
    assert request(run, "succeeded", person("bob")).pk != made.pk


def test_an_operator_without_an_account_cannot_request(run: Any) -> None:
    with pytest.raises(PermissionDenied):
        force(run, "succeeded", world.operator())


# Who may decide


def test_the_requester_cannot_approve_or_deny(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    for decide in (approvals.approve, approvals.deny):
        with pytest.raises(SamePerson):
            decide(made.pk, actor=person("ada"))
    notes = AuditNote.objects.filter(kind="override_refused")
    assert [(note.actor, note.facts["code"]) for note in notes] == [("ada", "same_person")] * 2


def test_the_requester_is_recognised_by_account_after_a_change_of_name(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    User.objects.filter(username="ada").update(username="someone-else")
    with pytest.raises(SamePerson):
        approvals.approve(made.pk, actor=person("someone-else"))


def test_the_requester_is_recognised_by_account_with_another_token(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    token, _text = make_token("spare", User.objects.get(username="ada"), "override")
    with pytest.raises(SamePerson):
        approvals.approve(made.pk, actor=token.as_operator())


@pytest.mark.parametrize("actor", [AGENT, THE_SYSTEM], ids=["agent", "system"])
def test_only_an_operator_decides(run: Any, actor: Actor) -> None:
    made = request(run, "succeeded", person("ada"))
    for decide in (approvals.approve, approvals.deny):
        with pytest.raises(PermissionDenied):
            decide(made.pk, actor=actor)


def test_deciding_takes_the_permission_to_override_that_machine(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    with pytest.raises(PermissionDenied) as refused:
        approvals.approve(made.pk, actor=operator_with("override_task", "operate_run"))
    assert refused.value.facts == {"required": "statecore.override_run"}


def test_a_policy_may_demand_a_group(run: Any, policy: Any) -> None:
    policy("run->succeeded by release managers")
    made, before = request(run, "succeeded", person("ada")), trace(run)
    with pytest.raises(PermissionDenied) as refused:
        approvals.approve(made.pk, actor=person("bob"))
    assert refused.value.facts == {"required": "group release managers"}
    assert trace(run) == before
    assert approvals.get(made.pk).status == "pending"
    assert approvals.approve(made.pk, actor=person("eve", "release managers")).changed


# What happened in between


def test_an_entity_that_moved_is_refused_and_the_request_is_closed(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    force(run, "pending", person("bob"))
    before = trace(run)
    with pytest.raises(StaleVersion) as refused:
        approvals.approve(made.pk, actor=person("bob"))
    assert refused.value.facts["version"] == 3
    assert trace(run) == before
    assert approvals.get(made.pk).status == "outdated"
    with pytest.raises(StaleVersion):
        approvals.approve(made.pk, actor=person("bob"))


def test_attack_an_entity_edited_after_the_request_is_refused(run: Any) -> None:
    """The attack: a request for a harmless entity is approved after its fields were changed."""
    made, bob = request(run, "succeeded", person("ada")), person("bob")
    transitions.edit(type(run), run.pk, {"metadata": {"target": "production"}}, actor=person("ada"))
    before = trace(run)
    with pytest.raises(StaleVersion):
        approvals.preview(made, bob)
    with pytest.raises(StaleVersion):
        approvals.approve(made.pk, actor=bob)
    assert trace(run) == before
    assert approvals.get(made.pk).status == "outdated"


def test_a_request_expires(run: Any, settings: Any) -> None:
    settings.STATECORE_APPROVAL_HOURS = 2
    made, before = request(run, "succeeded", person("ada")), trace(run)
    with time_machine.travel(now() + timedelta(hours=2, seconds=1)):
        assert approvals.get(made.pk).status == "expired"
        with pytest.raises(ApprovalExpired):
            approvals.approve(made.pk, actor=person("bob"))
        with pytest.raises(ApprovalExpired):
            approvals.deny(made.pk, actor=person("bob"))
        assert request(run, "succeeded", person("ada")).pk != made.pk
    assert trace(run) == before


@pytest.mark.parametrize("change", ["demoted", "deactivated", "deleted", "renamed", "token revoked"])
def test_a_requester_who_lost_the_right_is_refused(run: Any, change: str) -> None:
    ada = person("ada")
    if change == "token revoked":
        token, _text = make_token("hers", User.objects.get(username="ada"), "override")
        ada = token.as_operator()
    made, before = request(run, "succeeded", ada), trace(run)
    user = User.objects.get(username="ada")
    {
        "demoted": lambda: user.groups.clear(),
        "deactivated": lambda: User.objects.filter(pk=user.pk).update(is_active=False),
        "deleted": lambda: user.delete(),
        "renamed": lambda: User.objects.filter(pk=user.pk).update(username="ada2"),
        "token revoked": lambda: Token.objects.update(revoked_at=now()),
    }[change]()
    with pytest.raises(PermissionDenied):
        approvals.approve(made.pk, actor=person("bob"))
    assert trace(run) == before
    approvals.deny(made.pk, actor=person("bob"))


# Ways around the policy


def test_attack_8_forcing_in_two_steps_needs_a_second_person_too(run: Any, policy: Any) -> None:
    policy("run.running->succeeded")
    ada = person("ada")
    force(run, "pending", ada)
    before = trace(run)
    assert request(run, "succeeded", ada).from_state == "pending"
    assert trace(run) == before


def test_forcing_a_part_whose_cascade_ends_in_the_protected_state_needs_a_second_person(policy: Any) -> None:
    task = world.running_task()
    run = task.workstream.run
    fire(run, "run_started")
    before = trace(run), trace(task)
    made = request(task, "completed", person("ada"))
    assert made.policies == ["run->succeeded"]
    assert (trace(run), trace(task)) == before
    approvals.approve(made.pk, actor=person("bob"))
    assert type(run).objects.get(pk=run.pk).state == "succeeded"


def test_the_last_step_without_force_after_a_forced_one_needs_a_second_person(policy: Any) -> None:
    policy("run->canceled")
    run, ada = fire(world.run(), "run_started"), person("ada")
    force(run, "pending", ada)
    before = trace(run)
    with pytest.raises(ApprovalRequired) as refused:
        fire(run, "run_canceled", actor=ada)
    assert refused.value.facts["policies"] == ["run->canceled"]
    assert trace(run) == before
    assert fire(run, "run_canceled", actor=person("bob")).state == "canceled"


def test_the_last_step_of_a_batch_after_a_forced_one_needs_a_second_person(policy: Any) -> None:
    policy("run->canceled")
    run, other, ada = fire(world.run(), "run_started"), world.run(), person("ada")
    force(run, "pending", ada)
    before = trace(run)
    with pytest.raises(ApprovalRequired):
        transitions.transition_many(type(run), [run.pk, other.pk], "run_canceled", actor=ada)
    assert trace(run) == before


def test_a_step_forced_in_another_part_of_the_run_counts(policy: Any) -> None:
    """One person forces a task to its end and then takes the ordinary last step of its run."""
    policy("run->canceled")
    task, ada = world.running_task(), person("ada")
    force(task, "queued", ada)
    with pytest.raises(ApprovalRequired):
        fire(task.workstream.run, "run_canceled", actor=ada)


def test_a_step_forced_before_a_retry_counts(policy: Any) -> None:
    policy("run->canceled")
    run, ada = fire(world.run(), "run_started"), person("ada")
    force(run, "failed", ada)
    successor = transitions.retry(type(run), run.pk, actor=ada).entity
    with pytest.raises(ApprovalRequired):
        fire(successor, "run_canceled", actor=ada)


def test_attack_a_retry_after_a_forced_step_needs_a_second_person(policy: Any) -> None:
    """The attack: force a task to its end and retry it, so that its successor enters the protected state."""
    policy("task->pending")
    task, ada = world.running_task(), person("ada")
    force(task, "failed", ada)
    before = trace(task)
    with pytest.raises(ApprovalRequired) as refused:
        transitions.retry(type(task), task.pk, actor=ada)
    assert refused.value.facts["policies"] == ["task->pending"]
    assert trace(task) == before
    assert transitions.retry(type(task), task.pk, actor=person("bob")).entity is not None


@pytest.mark.parametrize("scope", ["agent", "integrate"])
def test_attack_the_last_step_with_a_token_of_the_same_person_needs_a_second_person(policy: Any, scope: str) -> None:
    """The attack: force a job or a gate to the step before, and report the last step as one's own program."""
    policy("pipeline_job->DONE", "test_gate->PASSED")
    forced = (world.model("PipelineJob"), "VALIDATING", "finish", {})
    if scope == "integrate":
        forced = (world.model("TestGate"), "RUNNING", "gate_passed", {"exit_code": 0})
    entity, ada = _entity_to_force(forced[0]), person("ada")
    force(entity, forced[1], ada)
    before = trace(entity)
    with pytest.raises(ApprovalRequired):
        fire(entity, forced[2], actor=_token_of("ada", scope), **forced[3])
    assert trace(entity) == before
    person("bob")
    assert fire(entity, forced[2], actor=_token_of("bob", scope), **forced[3]).state in ("DONE", "PASSED")


def _entity_to_force(model: Any) -> Any:
    if model.__name__ == "TestGate":
        return world.gate()
    return fire(transitions.create(model, actor=THE_SYSTEM).entity, "analyze", actor=THE_SYSTEM)


def _token_of(name: str, scope: str) -> Actor:
    return make_token(f"{name}-{scope}", User.objects.get(username=name), scope)[0].actor()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_attack_a_reaction_postponed_by_a_lock_is_part_of_what_a_policy_sees(policy: Any) -> None:
    """The attack: keep a row of the cascade locked, so that its reaction runs after the commit, without a policy."""
    policy("task->completed")
    gate, ada = world.gate(), person("ada")
    task = _validating_task(gate)
    with _locked_elsewhere(task), pytest.raises(RowsLocked):
        force(gate, "PASSED", ada)
    assert (type(gate).objects.get().state, type(task).objects.get().state) == ("PENDING", "validating")
    assert request(gate, "PASSED", ada).policies == ["task->completed"]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_attack_a_reaction_of_the_last_step_postponed_by_a_lock(policy: Any) -> None:
    policy("task->completed")
    gate, ada = world.gate(), person("ada")
    task = _validating_task(gate)
    force(gate, "RUNNING", ada)
    with _locked_elsewhere(task), pytest.raises(RowsLocked):
        fire(gate, "gate_passed", actor=_token_of("ada", "integrate"), exit_code=0)
    assert (type(gate).objects.get().state, type(task).objects.get().state) == ("RUNNING", "validating")


def _validating_task(gate: Any) -> Any:
    task = world.running_task(gates=[gate.pk])
    return fire(task, "execution_completed", attempt=task.attempt, exit_code=0)


@contextmanager
def _locked_elsewhere(entity: Any) -> Iterator[None]:
    other = connection.copy()
    other.set_autocommit(False)
    with other.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {entity._meta.db_table} WHERE id = %s FOR UPDATE", [entity.pk])
    try:
        yield
    finally:
        other.rollback()
        other.close()


def test_an_ordinary_step_without_force_before_needs_no_one(policy: Any) -> None:
    policy("run->canceled")
    assert fire(world.run(), "run_canceled", actor=person("ada")).state == "canceled"


# The record


def test_requests_and_decisions_cannot_be_changed_or_deleted(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    approvals.deny(made.pk, actor=person("bob"))
    force(run, "failed", person("ada"))
    for model, change in ((Approval, {"to_state": "failed"}), (ApprovalDecision, {"status": "approved"})):
        _refused(lambda model=model, change=change: model.objects.update(**change))
        _refused(lambda model=model: model.objects.all()._raw_delete("default"))
    _refused(lambda: ForcedStep.objects.update(account=0))
    _refused(lambda: ApprovalDecision.objects.create(approval=made, status="approved", decided_at=now()))
    assert approvals.get(made.pk).status == "denied"


def _refused(write: Any) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        write()


def test_a_second_decision_is_refused_by_the_database(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    approvals.deny(made.pk, actor=person("bob"))
    with pytest.raises(IntegrityError), world.disable_write_guard():
        ApprovalDecision.objects.create(approval=made, status="approved", decided_at=now())


def test_each_request_and_decision_is_an_entry_of_the_journal(run: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    approvals.deny(made.pk, actor=person("bob"), comment="no")
    entries = Event.objects.filter(kind="account", trigger__startswith="approval_").order_by("-trigger")
    assert [(entry.trigger, entry.actor) for entry in entries] == [
        ("approval_requested", "ada"),
        ("approval_decided", "bob"),
    ]
    assert {entry.as_dict()["metadata"]["approval"] for entry in entries} == {made.pk}
    assert entries[1].as_dict()["metadata"]["status"] == "denied"


def test_the_receivers_are_notified_of_requests_and_decisions(run: Any, settings: Any) -> None:
    settings.STATECORE_NOTIFY_URLS = ("json://localhost/a", "json://localhost/b")
    made = request(run, "succeeded", person("ada"))
    approvals.deny(made.pk, actor=person("bob"))
    subjects = [notice.subject for notice in AlertNotice.objects.order_by("pk")]
    assert (
        subjects
        == [f"Approval needed: run {run.pk} → succeeded, requested by ada"] * 2
        + [f"Denied by bob: run {run.pk} → succeeded, requested by ada"] * 2
    )


# The sweep


def test_the_sweep_closes_what_expired_or_moved_once(run: Any) -> None:
    other, still = fire(world.run(), "run_started"), fire(world.run(), "run_started")
    moved, pending = request(other, "succeeded", person("ada")), request(still, "succeeded", person("ada"))
    with time_machine.travel(now() - timedelta(days=3)):
        expired = request(run, "succeeded", person("ada"))
    force(other, "failed", person("bob"))
    assert approvals.close_overdue() == 2
    assert approvals.close_overdue() == 0
    assert [approvals.get(each.pk).status for each in (expired, moved, pending)] == ["expired", "outdated", "pending"]
    decisions = ApprovalDecision.objects.values_list("decided_by", "account", "channel")
    assert set(decisions) == {("", None, "system")}


# Input


@pytest.mark.parametrize("comment", ["x" * 2_001, "a\0b", 7], ids=["too long", "NUL", "a number"])
def test_a_comment_that_cannot_be_stored_is_refused(run: Any, comment: Any) -> None:
    made = request(run, "succeeded", person("ada"))
    with pytest.raises(Invalid):
        approvals.approve(made.pk, actor=person("bob"), comment=comment)


@pytest.mark.parametrize("approval_id", ["appr_nothing", "", "..", "a\0b", "x" * 65])
def test_a_request_that_does_not_exist_is_not_found(approval_id: str) -> None:
    with pytest.raises(NotFound):
        approvals.approve(approval_id, actor=person("bob"))


def test_the_tables_are_guarded_by_triggers() -> None:
    from statecore.storage import triggers

    tables = {table for _name, table in triggers.installed(connection)}
    assert {model._meta.db_table for model in (Approval, ApprovalDecision, ForcedStep)} <= tables
