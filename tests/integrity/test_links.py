"""Links between entities change only with an event of the entity that has them; other changes are refused or found."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from statecore import transitions
from statecore.journal import Event
from statecore.kernel import evidence
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.operations.integrity import verification
from statecore.scheduling import plans
from statecore.storage import triggers
from statecore.storage.roles import WEB, list_rights
from tests.support import world

pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]


def linked_task(name: str) -> tuple[Any, Any]:
    workstream = world.workstream()
    other = world.task(workstream=workstream) if name == "depends_on" else world.gate(workstream=workstream)
    return world.task(workstream=workstream, **{name: [other.pk]}), other


def linked_gate(name: str) -> tuple[Any, Any]:
    other = world.gate()
    return world.gate(phase=other.phase_id, depends_on=[other.pk]), other


def linked_workstream(name: str) -> tuple[Any, Any]:
    other = world.workstream()
    return world.workstream(run=other.run, depends_on=[other.pk]), other


LINKS: dict[str, tuple[Callable[[str], tuple[Any, Any]], str]] = {
    "task.depends_on": (linked_task, "depends_on"),
    "task.gates": (linked_task, "gates"),
    "task.entry_gates": (linked_task, "entry_gates"),
    "test_gate.depends_on": (linked_gate, "depends_on"),
    "workstream.depends_on": (linked_workstream, "depends_on"),
}
ATTACKS = {
    "add": "INSERT INTO {table} ({own}, {other}) VALUES ('{owner}', '{another}')",
    "change": "UPDATE {table} SET {other} = '{another}' WHERE {own} = '{owner}'",
    "take": "UPDATE {table} SET {own} = '{another}' WHERE {own} = '{owner}'",
    "remove": "DELETE FROM {table} WHERE {own} = '{owner}'",
}


def play(attack: str, entity: Any, name: str, another: Any) -> None:
    field = type(entity)._meta.get_field(name)
    statement = attack.format(
        table=field.remote_field.through._meta.db_table,
        own=field.m2m_column_name(),
        other=field.m2m_reverse_name(),
        owner=entity.pk,
        another=another.pk,
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SELECT 1")


def another_like(target: Any) -> Any:
    made = {Task: world.task, TestGate: world.gate, Workstream: world.workstream}[type(target)]
    return made()


@pytest.mark.parametrize(("make", "name"), LINKS.values(), ids=LINKS.keys())
def test_a_changed_link_is_refused(make: Any, name: str) -> None:
    entity, target = make(name)
    for attack in ATTACKS.values():
        another = another_like(entity if "SET {own}" in attack else target)
        with pytest.raises(DatabaseError, match=r"digest|deleted"):
            play(attack, entity, name, another)
    assert integrity.check_all() == []


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_link_changed_past_the_triggers_is_found(attack: str) -> None:
    attacked = [(*make(name), name) for make, name in LINKS.values()]
    with triggers.disabled(connection):
        for entity, target, name in attacked:
            play(attack, entity, name, another_like(entity if "SET {own}" in attack else target))
    verification._places.clear()
    for check in (integrity.check_all, integrity.check_recent, integrity.sweep_entities):
        found = [finding for finding in check() if finding.severity == "error"]
        assert {finding.check for finding in found} == {"links"}
        assert {entity.pk for entity, _, _ in attacked} <= {finding.entity_id for finding in found}


def test_digests_changed_without_an_event_are_refused_and_found() -> None:
    """A link and the digests of its entity could be changed together."""
    task, _ = linked_task("gates")
    with pytest.raises(DatabaseError, match="evidence"), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(link_digests="{}")
    with triggers.disabled(connection):
        Task.gates.through.objects.all().delete()
        Task.objects.filter(pk=task.pk).update(link_digests="{}")
    assert [finding.check for finding in integrity.check_all()] == ["evidence"]


@pytest.mark.postgres
def test_a_link_cannot_be_added_before_its_entity() -> None:
    task = world.task()
    with pytest.raises(DatabaseError, match="digest"), transaction.atomic():
        Task.gates.through.objects.create(task_id="a-later-task", testgate_id=world.gate().pk)
    assert Task.objects.get(pk=task.pk).link_digests == "{}"


def test_tables_of_links_cannot_be_emptied_by_a_process() -> None:
    for model in (Task, TestGate, Workstream):
        for field in model._meta.many_to_many:
            assert list_rights(WEB)[field.remote_field.through._meta.db_table] == "SELECT, INSERT, UPDATE"


def test_a_retry_records_the_changed_link_of_each_dependent() -> None:
    workstream = world.workstream()
    failed = world.forced(world.task(workstream=workstream), "failed")
    waiting = [world.task(workstream=workstream, depends_on=[failed.pk]) for _ in range(8)]

    successor = transitions.retry(Task, failed.pk, actor=world.operator()).entity

    assert successor is not None
    for task in waiting:
        event = Event.objects.filter(entity_id=task.pk).latest("sequence").as_dict()
        assert (event["kind"], event["version"]) == ("edited", 2)
        assert event["metadata"]["changed"] == {"depends_on": f"['{failed.pk}'] → ['{successor.pk}']"}
        digests = Task.objects.get(pk=task.pk).link_digests
        assert digests == evidence.digest_links({"depends_on": [successor.pk]})
    assert integrity.check_all() == []


def test_a_successor_has_the_digests_of_its_links_from_its_first_event() -> None:
    workstream = world.workstream()
    gate = world.gate(workstream=workstream)
    failed = world.forced(world.task(workstream=workstream, gates=[gate.pk]), "failed")
    successor: Any = transitions.retry(Task, failed.pk, actor=world.operator()).entity
    assert successor.link_digests == evidence.digest_links({"gates": [gate.pk]})
    assert integrity.check_all() == []


def test_a_plan_records_the_digests_of_its_links() -> None:
    tasks = [{"id": f"t{n}", "depends_on": [f"t{n - 1}"] if n else [], "gates": ["g"]} for n in range(3)]
    gates = [{"id": "g", "gate_type": "UNIT", "command": "true"}]
    plan = {"phase": world.phase().pk, "workstreams": [{"id": "w", "tasks": tasks, "gates": gates}]}
    plans.submit_plan(plan, actor=world.operator())
    assert Task.objects.get(pk="t2").link_digests == evidence.digest_links({"depends_on": ["t1"], "gates": ["g"]})
    assert integrity.check_all() == []


def test_links_of_an_entity_of_an_earlier_version_stay_as_they_were() -> None:
    """They have no digests; a process of that version still adds them, and a retry records them."""
    workstream = world.workstream()
    failed, waiting = world.task(workstream=workstream), world.task(workstream=workstream)
    with triggers.disabled(connection):
        Task.objects.filter(pk=waiting.pk).update(link_digests="")
        Event.objects.filter(entity_id=waiting.pk).update(kind="created")
    waiting.depends_on.add(failed)
    assert "links" not in {finding.check for finding in integrity.check_all()}

    successor: Any = transitions.retry(Task, world.forced(failed, "failed").pk, actor=world.operator()).entity

    recorded = Task.objects.get(pk=waiting.pk).link_digests
    assert recorded == evidence.digest_links({"depends_on": [successor.pk]})
