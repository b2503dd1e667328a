"""Requests for approval, decisions, audit notes and templates are covered by entries of the journal."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection

from statecore import transitions
from statecore.journal import Event
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.operations import integrity
from statecore.records import Approval, ApprovalDecision, AuditNote, Phase
from statecore.scheduling import templates
from statecore.storage import triggers
from statecore.transitions import approvals
from tests.api.callers import Caller, expect_ok
from tests.support import world

pytestmark = pytest.mark.django_db

PLAN = {"phase": "PH-1", "workstreams": [{"id": "w", "tasks": [{"id": "t"}]}]}


def person(name: str) -> Actor:
    return Actor.operator(User.objects.create(username=name, password="!", is_superuser=True), Channel.CONSOLE)


def force(actor: Actor, **given: Any) -> Any:
    wanted = {"reason": world.REASON, "category": "stuck", **given}
    return transitions.override(type(world.run()), world.run().pk, "succeeded", actor=actor, **wanted)


@pytest.fixture
def records(settings: Any) -> dict[str, Any]:
    """One record of each kind."""
    settings.STATECORE_SECOND_PERSON = ["run->succeeded"]
    ada = person("ada")
    made = force(ada).answer["approval"]["id"]
    approvals.deny(made, actor=person("bob"), comment="no")
    with pytest.raises(Refusal):
        force(ada, reason="no")
    return {
        "approval": Approval.objects.get(),
        "decision": ApprovalDecision.objects.get(),
        "note": get_note(),
        "template": templates.store("nightly", plan=PLAN, actor=ada),
    }


def get_note() -> AuditNote:
    return AuditNote.objects.get()


def sentences(check: Callable[[], list[integrity.Finding]] = integrity.check_all) -> list[str]:
    return [finding.detail for finding in check() if finding.severity == "error"]


def test_each_record_has_an_entry_with_its_digest(records: dict[str, Any]) -> None:
    for record in records.values():
        entry = Event.objects.get(pk=record.journal_entry)
        assert (entry.entity_type, entry.as_dict()["metadata"]["digest"]) == ("account", record.digest())
    assert sentences() == []


CHANGES = {
    "approval": {"reason": "another reason, also long enough"},
    "decision": {"status": "approved", "decided_by": "eve"},
    "note": {"actor": "eve"},
    "template": {"plan": {"phase": "PH-2", "workstreams": []}},
}


def test_a_changed_record_is_found(records: dict[str, Any]) -> None:
    with triggers.disabled(connection):
        for name, record in records.items():
            type(record).objects.filter(pk=record.pk).update(**CHANGES[name])
    for check in (integrity.check_all, integrity.check_recent):
        found = sentences(check)
        assert len(found) == 4
        assert all("differs from its entry" in sentence for sentence in found)


def test_an_added_record_without_an_entry_is_refused(records: dict[str, Any]) -> None:
    run = world.run()
    forged = Approval(**{**vars_of(records["approval"]), "id": "appr_forged", "entity_id": run.pk, "journal_entry": ""})
    for record in (forged, AuditNote(kind="override_refused", actor="eve", at=now())):
        with pytest.raises(DatabaseError, match="entry of the journal"), world.disable_write_guard():
            record.save(force_insert=True)


def test_added_removed_and_copied_records_are_found(records: dict[str, Any]) -> None:
    with triggers.disabled(connection):
        Approval(**{**vars_of(records["approval"]), "id": "appr_Z", "journal_entry": ""}).save(force_insert=True)
        AuditNote(**{**vars_of(records["note"]), "id": None}).save(force_insert=True)
        ApprovalDecision.objects.all()._raw_delete("default")
    found = sentences()
    assert sum("names no entry" in sentence for sentence in found) == 1
    assert sum("has the entry of another record" in sentence for sentence in found) == 2
    assert sum(f"the record of the entry {records['decision'].journal_entry} is missing" in each for each in found) == 1
    assert len(found) == 4


def test_a_record_of_an_earlier_version_needs_no_entry(records: dict[str, Any]) -> None:
    with triggers.disabled(connection):
        Approval(**{**vars_of(records["approval"]), "id": "appr_0", "journal_entry": ""}).save(force_insert=True)
    assert sentences() == []


def vars_of(record: Any) -> dict[str, Any]:
    return {field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields}


# Phases


def test_a_phase_has_entries_and_a_change_by_sql_is_found() -> None:
    """The attack: SQL widens the paths that the patches of a phase may change."""
    operator = Caller("operate")
    expect_ok(operator.post("phases/", {"id": "PH", "allowed_paths": ["src/*"]}), 201)
    expect_ok(operator.patch("phases/PH/", {"allowed_paths": ["src/*", "docs/*"]}))
    entries = [entry.as_dict() for entry in Event.objects.filter(trigger__startswith="phase_").order_by("timestamp")]
    assert [(entry["trigger"], entry["actor"]) for entry in entries] == [
        ("phase_created", operator.user.username),
        ("phase_changed", operator.user.username),
    ]
    assert entries[1]["metadata"]["allowed_paths"] == ["src/*", "docs/*"]
    assert integrity.check_all() == []

    Phase.objects.update(allowed_paths=[])

    (finding,) = integrity.check_all()
    assert (finding.check, finding.severity) == ("record", "error")
    assert "phase PH (phase PH) differs from its last entry" in finding.detail
    Phase.objects.all().delete()
    assert "phase PH is missing" in integrity.check_all()[0].detail
