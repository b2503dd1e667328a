"""Columns that carry decisions and evidence change only with an event, and a change past the triggers is found."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statecore import transitions
from statecore.executors import compensation, patches
from statecore.journal import Event, events
from statecore.kernel import evidence, registry
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.operations import integrity
from statecore.records import Patch
from statecore.storage import triggers
from tests.machines import worlds
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]


def committed_patch() -> Any:
    entry = world.patch()
    for trigger, params in (
        ("validation_passed", {"format_passed": True, "scope_passed": True, "constraints_passed": True}),
        ("accepted_for_merge", {}),
        ("apply_succeeded", {}),
        ("tests_passed", {}),
        ("commit_succeeded", {"commit_sha": "a" * 40}),
    ):
        entry = world.fire(entry, trigger, **params)
    return entry


def passed_gate() -> Any:
    gate = world.fire(world.gate(), "gate_started")
    return world.fire(gate, "gate_passed", exit_code=0, stdout="5 passed", stderr="")


ATTACKS = {
    "compensation_approved_by": (committed_patch, "mallory"),
    "commit_sha": (committed_patch, "b" * 40),
    "command": (passed_gate, "true"),
    "stdout": (passed_gate, "500 passed"),
    "payload": (lambda: world.task(payload={"n": 1}), {"n": 2}),
    "claimed_by": (world.task, "mallory"),
    "metadata": (world.run, {"approved": "yes"}),
}
every_attack = pytest.mark.parametrize(("column", "attack"), ATTACKS.items(), ids=ATTACKS.keys())


@every_attack
def test_a_plain_update_of_decisions_and_evidence_is_refused(column: str, attack: Any) -> None:
    entity, value = attack[0](), attack[1]
    with pytest.raises(DatabaseError, match="evidence"), transaction.atomic():
        type(entity).objects.filter(pk=entity.pk).update(**{column: value})
    assert integrity.check_all() == []


@every_attack
def test_an_update_of_decisions_and_evidence_past_the_triggers_is_found(column: str, attack: Any) -> None:
    entity, value = attack[0](), attack[1]
    with triggers.disabled(connection):
        type(entity).objects.filter(pk=entity.pk).update(**{column: value})
    for check in (
        integrity.check_all,
        integrity.check_recent,
        lambda: integrity.check_entity(entity.flow.entity_type, entity.pk),
    ):
        (finding,) = check()
        assert (finding.check, finding.severity, finding.entity_id) == ("evidence", "error", entity.pk)


def test_evidence_changed_before_a_transition_is_found_after_it() -> None:
    """The attack: remove the triggers, change the row, put them back; the next event has the digest of the new row."""
    gate = world.fire(world.gate(), "gate_started")
    with triggers.disabled(connection):
        TestGate.objects.filter(pk=gate.pk).update(command="true")
    world.fire(gate, "gate_passed", exit_code=0, stdout="", stderr="")
    assert integrity.check_entity("test_gate", gate.pk) == integrity.check_all() == integrity.check_recent()
    (finding,) = integrity.check_all()
    assert (finding.check, finding.severity, finding.entity_id) == ("chain", "error", gate.pk)
    assert "number 3: decisions or evidence in the row were changed" in finding.detail


@pytest.mark.django_db(transaction=True)
def test_evidence_changed_with_a_forged_event_is_found() -> None:
    """The attack: SQL writes the row together with an event that has no digest, as events of the first version had."""
    gate = passed_gate()
    forge_event(gate, {"stdout": "500 passed"})
    for assign_positions in (lambda: None, catch_up):
        assign_positions()
        (finding,) = integrity.check_entity("test_gate", gate.pk)
        assert finding.check == "evidence"
        assert finding.detail.startswith("its last event has no digest of its evidence")


def forge_event(entity: Any, changed: dict[str, Any]) -> None:
    entry = events.build_entry(
        entity_type=entity.flow.entity_type, entity_id=entity.pk, sequence=entity.version + 1,
        prev_hash=entity.chain_head, kind="edited", trigger="edited", from_state=entity.state, to_state=entity.state,
        severity="info", actor="mallory", channel="rest", at=now(), details={},
    )  # fmt: skip
    rows = type(entity).objects.filter(pk=entity.pk)
    with triggers.disabled(connection):
        rows.update(version=entry.sequence, chain_head=entry.hash, **changed)
        Event(**entry._asdict()).save(force_insert=True)


def test_the_diff_of_a_committed_patch_cannot_be_changed_or_deleted() -> None:
    entry = committed_patch()
    for attack in (Patch.objects.filter(pk=entry.patch_id).update, Patch.objects.filter(pk=entry.patch_id)._raw_delete):
        with pytest.raises(DatabaseError, match="cannot be"), transaction.atomic():
            attack(diff="another") if attack.__name__ == "update" else attack("default")
    assert integrity.check_all() == []


@pytest.mark.sqlite
def test_the_diff_of_a_committed_patch_cannot_be_replaced() -> None:
    committed_patch()
    with pytest.raises(DatabaseError, match="cannot be"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT OR REPLACE INTO statecore_patch (id, title, diff, created_at) "
            "SELECT id, title, 'another', created_at FROM statecore_patch"
        )


def test_a_diff_changed_past_the_triggers_is_found_and_not_applied() -> None:
    entry = world.patch()
    with triggers.disabled(connection):
        Patch.objects.filter(pk=entry.patch_id).update(diff="--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n")
    (finding,) = integrity.check_all()
    assert (finding.check, finding.entity_id) == ("diff", entry.pk)

    refused = patches._validate(type(entry).objects.get(pk=entry.pk))

    assert (refused.state, refused.quarantine_reason) == (
        "quarantined",
        "the diff was changed after the patch was submitted",
    )


# Changes through the service stay legal and are recorded.


def test_an_edit_is_an_event_with_the_new_digest() -> None:
    task = world.task(payload={"n": 1})
    entered = task.state_entered_at

    edited = transitions.edit(Task, task.pk, {"payload": {"n": 2}}, actor=world.operator())

    assert (edited.version, edited.state, edited.state_entered_at) == (2, "pending", entered)
    event = world.last_event(task)
    assert (event["kind"], event["trigger"], event["actor"]) == ("edited", "edited", "ada")
    assert (event["from_state"], event["to_state"]) == ("pending", "pending")
    assert event["metadata"] == {"changed": {"payload": "{'n': 1} → {'n': 2}"}}
    row = Task.objects.get(pk=task.pk)
    assert (row.payload, row.state_entered_at, row.version) == ({"n": 2}, entered, 2)
    assert event["evidence"] == evidence.digest(Task, row.__dict__)
    assert integrity.check_all() == []


def test_an_edit_from_one_to_true_is_stored() -> None:
    task = world.task(payload={"n": 1})
    transitions.edit(Task, task.pk, {"payload": {"n": True}}, actor=world.operator())
    assert Task.objects.get(pk=task.pk).payload["n"] is True
    assert integrity.check_all() == []


def test_an_edit_is_not_counted_as_a_transition() -> None:
    task = world.task()
    transitions.edit(Task, task.pk, {"priority": 7}, actor=world.operator())
    assert world.fire(task, "scheduler_assigned").version == 3
    assert integrity.check_all() == []


def test_the_approval_of_a_compensation_plan_is_an_event() -> None:
    entry = committed_patch()
    plan = {"compensation_type": "manual_fix", "actions": [], "validation": {}}
    compensation.write_plan(entry.pk, plan, world.operator("ada"))
    compensation.approve(entry.pk, world.operator("bob"))
    event = world.last_event(entry)
    assert (event["kind"], event["actor"]) == ("edited", "bob")
    assert event["metadata"] == {"changed": {"compensation_approved_by": "'' → 'bob'"}}
    assert integrity.check_all() == []


def test_heartbeats_and_leases_need_no_event() -> None:
    gate = world.fire(world.gate(), "gate_started")
    TestGate.objects.filter(pk=gate.pk).update(runner_until=gate.started_at, attempt=gate.attempt + 1)
    assert integrity.check_all() == []


@pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)
def test_every_machine_has_evidence_and_its_rows_have_its_digest(flow: Any) -> None:
    worlds.create_entity(flow)
    assert "metadata" in {name for name, _default in evidence.columns(flow.model).defaults}
    assert integrity.check_all() == []


def test_volatile_fields_exist() -> None:
    for flow in registry.flows():
        assert set(flow.model.volatile) <= {field.name for field in flow.model._meta.concrete_fields}


# The digest is the same before and after the row is stored.

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
documents = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.postgres
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.dictionaries(texts, documents, max_size=3))
def test_any_document_has_the_same_digest_when_it_is_read_back(payload: dict[str, Any]) -> None:
    values = Task(id="t", created_at=datetime(2026, 1, 1, tzinfo=UTC)).__dict__
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(payload)])
        stored = orjson.loads(cursor.fetchone()[0])
    assert evidence.digest(Task, {**values, "payload": payload}) == evidence.digest(Task, {**values, "payload": stored})


@pytest.mark.parametrize("value", [1e16, 4.570773887125019e16, -0.0, 1.0, 1e22, 9.3e18, -9.3e18, 0.1, 5e-324])
def test_a_float_has_the_same_digest_when_it_is_read_back(value: float) -> None:
    task = world.task(payload={"n": value})
    assert evidence.digest(Task, task.__dict__) == evidence.digest(Task, Task.objects.get(pk=task.pk).__dict__)


def test_the_digest_does_not_depend_on_the_time_zone() -> None:
    values = dict(world.task().__dict__)
    utc = datetime(2026, 1, 1, 12, tzinfo=UTC)
    digests = {
        evidence.digest(Task, {**values, "started_at": at})
        for at in (utc, utc.astimezone(timezone(timedelta(hours=2))))
    }
    assert len(digests) == 1
