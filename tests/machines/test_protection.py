"""Only the transition service changes a state: the ORM, fixtures, SQL and foreign connections are refused."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.core.serializers.base import DeserializationError
from django.db import DatabaseError, IntegrityError, connection, migrations, transaction
from django.db.migrations.state import ProjectState
from django.db.models import F, Model

from statecore import transitions
from statecore.journal import GENESIS, Event
from statecore.kernel.clock import now
from statecore.kernel.entity import DirectWriteError
from statecore.storage import trigger_check, triggers
from tests.machines import worlds
from tests.machines.worlds import Clock
from tests.support import world
from tests.support.world import disable_write_guard, trace

# A row is brought into a final state; reactions would start a retry or end its parents.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]

REFUSALS = (DatabaseError, DirectWriteError, DeserializationError, AttributeError)


@pytest.fixture
def clock() -> Iterator[Clock]:
    with worlds.fixed_clock() as traveller:
        yield traveller


every_machine = pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)


def another_state(entity: Any) -> str:
    return next(state for state in entity.flow.states if state != entity.state)


def like(entity: Any, **changes: Any) -> Any:
    """Returns the row as a new object with another state."""
    values = {field.attname: getattr(entity, field.attname) for field in entity._meta.concrete_fields}
    return type(entity)(**{**values, "state": another_state(entity), **changes})


def a_fixture(path: Path, entity: Any, **changes: Any) -> Path:
    shown = entity.as_dict()
    fields = {
        field.name: value
        for field in entity._meta.concrete_fields
        if field.name != "id" and (value := shown.get(field.name)) is not None
    }
    row = {"model": entity._meta.label_lower, "pk": entity.pk, "fields": {**fields, **changes}}
    path.write_text(json.dumps([row]))
    return path


def run_sql(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def table_of(entity: Any) -> str:
    return entity._meta.db_table


def upsert(entity: Any) -> None:
    type(entity).objects.bulk_create(
        [like(entity)], update_conflicts=True, update_fields=["state"], unique_fields=["id"]
    )


def bulk_update(entity: Any) -> None:
    type(entity).objects.bulk_update([like(entity)], ["state"])


def raw_update(entity: Any) -> None:
    run_sql(f"UPDATE {table_of(entity)} SET state = %s WHERE id = %s", another_state(entity), entity.pk)


def raw_insert(entity: Any) -> None:
    columns = ", ".join(f'"{field.column}"' for field in entity._meta.concrete_fields)
    values = columns.replace('"id"', "'copied'").replace('"retry_of_id"', "NULL")
    run_sql(f"INSERT INTO {table_of(entity)} ({columns}) SELECT {values} FROM {table_of(entity)}")


ATTACKS: dict[str, Callable[[Any], object]] = {
    "update": lambda it: type(it).objects.filter(pk=it.pk).update(state=another_state(it)),
    "update by an expression": lambda it: type(it).objects.update(version=F("version") + 1),
    "update of the chain": lambda it: type(it).objects.update(chain_head=GENESIS),
    "update of the id": lambda it: type(it).objects.filter(pk=it.pk).update(id="another"),
    "bulk_update": bulk_update,
    "bulk_create": lambda it: type(it).objects.bulk_create([like(it, id="new")]),
    "bulk_create as an upsert": upsert,
    "create with a state": lambda it: type(it).objects.create(id="new", state=another_state(it)),
    "create without a state": lambda it: type(it).objects.create(id="new"),
    "update_or_create": lambda it: type(it).objects.update_or_create(pk=it.pk, defaults={"metadata": {}}),
    "save": lambda it: it.save(),
    "save of a row made from the outside": lambda it: like(it).save(),
    "raw save_base": lambda it: like(it).save_base(raw=True),
    "raw save_base of a new row": lambda it: like(it, id="new").save_base(raw=True),
    "Model.save": lambda it: Model.save(like(it)),
    "delete": lambda it: it.delete(),
    "delete by a query": lambda it: type(it).objects.filter(pk=it.pk).delete(),
    "raw delete by the ORM": lambda it: type(it).objects.all()._raw_delete("default"),
    "raw UPDATE": raw_update,
    "raw INSERT": raw_insert,
    "raw DELETE": lambda it: run_sql(f"DELETE FROM {table_of(it)}"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@every_machine
def test_a_write_past_the_transition_service_is_refused(flow, attack) -> None:
    entity = worlds.create_entity(flow)
    before = trace(entity)

    with pytest.raises(REFUSALS), transaction.atomic():
        attack(entity)

    assert trace(entity) == before
    assert flow.model.objects.filter(pk__in=["new", "copied", "another"]).count() == 0


@every_machine
def test_a_fixture_does_not_change_a_state(flow, tmp_path) -> None:
    entity = worlds.create_entity(flow)
    before = trace(entity)
    fixture = a_fixture(tmp_path / "rows.json", entity, state=another_state(entity))

    with pytest.raises(REFUSALS), transaction.atomic():
        call_command("loaddata", fixture, verbosity=0)

    assert trace(entity) == before


def test_a_fixture_does_not_create_an_entity(tmp_path) -> None:
    entity = world.run()
    fixture = a_fixture(tmp_path / "rows.json", entity)
    fixture.write_text(fixture.read_text().replace(entity.pk, "run-from-a-fixture"))

    with pytest.raises(REFUSALS), transaction.atomic():
        call_command("loaddata", fixture, verbosity=0)

    assert not type(entity).objects.filter(pk="run-from-a-fixture").exists()


@pytest.mark.sqlite
@every_machine
def test_insert_or_replace_does_not_replace_a_row(flow) -> None:
    entity = worlds.create_entity(flow)
    before = trace(entity)
    columns = ", ".join(f'"{field.column}"' for field in entity._meta.concrete_fields)
    values = columns.replace('"state"', f"'{another_state(entity)}'")

    with pytest.raises(IntegrityError), transaction.atomic():
        run_sql(f"INSERT OR REPLACE INTO {table_of(entity)} ({columns}) SELECT {values} FROM {table_of(entity)}")

    assert trace(entity) == before


@pytest.mark.sqlite
@every_machine
def test_insert_or_replace_does_not_replace_a_row_without_the_write_guard(flow) -> None:
    entity = worlds.create_entity(flow)
    before = trace(entity)
    columns = ", ".join(f'"{field.column}"' for field in entity._meta.concrete_fields)

    with pytest.raises(IntegrityError), disable_write_guard():
        run_sql(f"INSERT OR REPLACE INTO {table_of(entity)} ({columns}) SELECT {columns} FROM {table_of(entity)}")

    assert trace(entity) == before


@pytest.mark.postgres
@every_machine
def test_truncate_empties_no_table(flow) -> None:
    entity = worlds.create_entity(flow)
    before = trace(entity)

    with pytest.raises(DatabaseError), disable_write_guard():
        run_sql(f"TRUNCATE {table_of(entity)} CASCADE")

    assert trace(entity) == before


# A foreign connection sees committed rows only.


def foreign_sqlite() -> sqlite3.Connection:
    return sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)


def foreign_postgres() -> psycopg.Connection:
    settings = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return psycopg.connect(**{name: settings[name] for name in names if settings.get(name)}, autocommit=True)


FOREIGN_SQL = {
    "UPDATE": "UPDATE {table} SET state = '{state}'",
    "UPDATE of the version": "UPDATE {table} SET version = version + 1",
    "DELETE": "DELETE FROM {table}",
    "INSERT": "INSERT INTO {table} SELECT * FROM {table}",
    "event UPDATE": "UPDATE statecore_event SET actor = 'nobody'",
    "event DELETE": "DELETE FROM statecore_event",
    "event INSERT": "INSERT INTO statecore_event SELECT * FROM statecore_event",
}
every_foreign_statement = pytest.mark.parametrize("statement", FOREIGN_SQL.values(), ids=FOREIGN_SQL.keys())


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("replacing", [False, True])
@every_foreign_statement
def test_a_foreign_sqlite_connection_changes_nothing(statement, replacing, recursive) -> None:
    entity = world.run()
    before = trace(entity)
    sql = statement.format(table=table_of(entity), state="running")
    foreign = foreign_sqlite()
    foreign.execute(f"PRAGMA recursive_triggers = {recursive}")

    with pytest.raises(sqlite3.DatabaseError):
        foreign.execute(sql.replace("INSERT", "INSERT OR REPLACE") if replacing else sql)

    foreign.close()
    assert trace(entity) == before


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@every_foreign_statement
def test_a_foreign_postgres_connection_changes_nothing(statement) -> None:
    entity = world.run()
    before = trace(entity)

    with foreign_postgres() as foreign, pytest.raises(psycopg.DatabaseError):
        foreign.execute(statement.format(table=table_of(entity), state="running"))

    assert trace(entity) == before


@pytest.mark.django_db(transaction=True)
def test_the_write_guard_is_enabled_again_after_a_transition() -> None:
    with transaction.atomic():
        entity = world.run()
        before = trace(entity)
        with pytest.raises(DatabaseError), transaction.atomic():
            raw_update(entity)
        assert trace(entity) == before


# Assignment


def test_a_state_is_not_assigned() -> None:
    entity = world.task()
    with pytest.raises(AttributeError, match="protected"):
        entity.state = "completed"
    assert entity.state == "pending"


def test_a_state_is_not_assigned_to_a_row_read_from_the_database() -> None:
    entity = type(world.task()).objects.get()
    with pytest.raises(AttributeError, match="protected"):
        entity.state = "completed"


def test_a_deferred_state_is_not_assigned() -> None:
    entity = type(world.task()).objects.defer("state").get()
    with pytest.raises(AttributeError, match="protected"):
        entity.state = "completed"
    assert entity.state == "pending"


def test_a_state_that_was_left_out_is_not_assigned() -> None:
    entity = type(world.task()).objects.only("id").get()
    with pytest.raises(AttributeError, match="protected"):
        entity.state = "completed"


def test_a_state_is_not_assigned_after_a_refresh() -> None:
    entity = world.task()
    entity.refresh_from_db()
    with pytest.raises(AttributeError, match="protected"):
        entity.state = "completed"


def test_a_refresh_sees_the_new_state() -> None:
    entity = world.task()
    world.fire(entity, "scheduler_assigned")
    entity.refresh_from_db()
    assert entity.state == "queued"


def test_a_refresh_that_fails_leaves_every_state_protected() -> None:
    lost, other = copy(world.task()), world.task()
    lost.pk = "nowhere"
    with pytest.raises(type(other).DoesNotExist):
        lost.refresh_from_db()
    for entity in (lost, other):
        with pytest.raises(AttributeError, match="protected"):
            entity.state = "completed"


# The journal


def an_event_like(event: Event, **changes: Any) -> Event:
    values = {field.attname: getattr(event, field.attname) for field in Event._meta.concrete_fields}
    return Event(**{**values, **changes})


EVENT_ATTACKS: dict[str, Callable[[Event], object]] = {
    "update": lambda event: Event.objects.update(actor="nobody"),
    "save": lambda event: an_event_like(event, actor="nobody").save(),
    "bulk_update": lambda event: Event.objects.bulk_update([an_event_like(event, actor="nobody")], ["actor"]),
    "delete": lambda event: event.delete(),
    "delete by a query": lambda event: Event.objects.all().delete(),
    "create": lambda event: an_event_like(event, event_id="evt_new", sequence=99).save(force_insert=True),
    "bulk_create": lambda event: Event.objects.bulk_create([an_event_like(event, event_id="evt_new", sequence=99)]),
    "raw UPDATE": lambda event: run_sql("UPDATE statecore_event SET timestamp = %s", now()),
    "raw DELETE": lambda event: run_sql("DELETE FROM statecore_event"),
}
OPEN_GATE_ATTACKS = {name: it for name, it in EVENT_ATTACKS.items() if "create" not in name}


@pytest.mark.parametrize("attack", EVENT_ATTACKS.values(), ids=EVENT_ATTACKS.keys())
def test_an_event_is_neither_changed_nor_deleted_nor_added(attack) -> None:
    entity = world.run()
    before = trace(entity)

    with pytest.raises(DatabaseError), transaction.atomic():
        attack(Event.objects.get())

    assert trace(entity) == before


@pytest.mark.parametrize("attack", OPEN_GATE_ATTACKS.values(), ids=OPEN_GATE_ATTACKS.keys())
def test_an_event_is_neither_changed_nor_deleted_without_the_write_guard(attack) -> None:
    entity = world.run()
    before = trace(entity)

    with pytest.raises(DatabaseError), disable_write_guard():
        attack(Event.objects.get())

    assert trace(entity) == before


@pytest.mark.sqlite
def test_an_event_is_not_replaced() -> None:
    entity = world.run()
    before = trace(entity)
    with pytest.raises(IntegrityError), disable_write_guard():
        run_sql("INSERT OR REPLACE INTO statecore_event SELECT * FROM statecore_event")
    assert trace(entity) == before


@pytest.mark.postgres
def test_the_journal_is_not_truncated() -> None:
    entity = world.run()
    before = trace(entity)
    with pytest.raises(DatabaseError), disable_write_guard():
        run_sql("TRUNCATE statecore_event")
    assert trace(entity) == before


def test_a_chain_does_not_fork() -> None:
    entity = world.run()
    (event,) = Event.objects.all()
    with pytest.raises(IntegrityError), disable_write_guard():
        an_event_like(event, event_id="evt_fork").save(force_insert=True)
    assert len(world.events_of(entity)) == 1


# Final states, frozen and rising fields: with the write guard disabled too

FINAL_STATES = [(flow, state) for flow in worlds.flows() for state in sorted(flow.final)]


def shut_exits(flow, state: str) -> list[str]:
    return [target for target in flow.states if target != state and (state, target) not in flow.final_exits()]


@pytest.mark.parametrize(
    ("flow", "state"), FINAL_STATES, ids=[f"{flow.entity_type}: {state}" for flow, state in FINAL_STATES]
)
def test_a_final_state_stays_final_without_the_write_guard(flow, state, clock) -> None:
    entity = worlds.bring_to(flow, state, clock)
    before = trace(entity)

    for target in shut_exits(flow, state):
        # On PostgreSQL the constraints are checked before the triggers.
        with (
            pytest.raises(IntegrityError, match=r"only the transition service changes|violates"),
            disable_write_guard(),
        ):
            flow.model.objects.filter(pk=entity.pk).update(state=target)

    assert trace(entity) == before


@every_machine
def test_an_entity_is_created_in_its_initial_state_without_the_write_guard(flow) -> None:
    entity = worlds.create_entity(flow)
    with pytest.raises(IntegrityError, match=r"only the transition service creates|violates"), disable_write_guard():
        flow.model.objects.bulk_create([like(entity, id="new", retry_of_id=None)])


@every_machine
def test_an_id_never_changes_without_the_write_guard(flow) -> None:
    entity = worlds.create_entity(flow)
    with pytest.raises(IntegrityError, match="only the transition service changes"), disable_write_guard():
        flow.model.objects.filter(pk=entity.pk).update(id="another")


@every_machine
def test_no_row_is_deleted_without_the_write_guard(flow) -> None:
    entity = worlds.create_entity(flow)
    with pytest.raises(IntegrityError, match="cannot be deleted"), disable_write_guard():
        run_sql(f"DELETE FROM {table_of(entity)}")


def test_whether_a_task_is_critical_never_changes() -> None:
    entity = world.task()
    with pytest.raises(IntegrityError, match="frozen"), disable_write_guard():
        type(entity).objects.update(is_critical=True)


def test_an_affinity_changes_while_the_worker_is_initializing() -> None:
    entity = world.touched(world.worker(), affinity={"workstreams": ["ws-1"]})
    assert entity.affinity == {"workstreams": ["ws-1"]}


def rewrite(entity: Any, **columns: Any) -> None:
    """Updates the row as a transition does, with a new version."""
    type(entity).objects.filter(pk=entity.pk).update(version=F("version") + 1, **columns)


@pytest.mark.parametrize("affinity", [{"workstreams": ["ws-1"]}, {}])
def test_an_affinity_no_longer_changes_once_the_worker_is_registered(affinity) -> None:
    entity = world.idle_worker()
    with pytest.raises(IntegrityError, match="frozen"), disable_write_guard():
        rewrite(entity, affinity=affinity)


def test_an_affinity_is_not_taken_away_once_the_worker_is_registered() -> None:
    entity = world.idle_worker(affinity={"workstreams": ["ws-1"]})
    with pytest.raises(IntegrityError, match="frozen"), disable_write_guard():
        rewrite(entity, affinity=None)


RISING = [(flow, name) for flow in worlds.flows() for name in flow.monotonic]


@pytest.mark.parametrize(("flow", "name"), RISING, ids=[f"{flow.entity_type}.{name}" for flow, name in RISING])
def test_a_number_that_rises_never_falls(flow, name) -> None:
    entity = world.touched(worlds.create_entity(flow), **{name: 2})
    with pytest.raises(IntegrityError, match="frozen"), disable_write_guard():
        rewrite(entity, **{name: 1})
    assert getattr(type(entity).objects.get(pk=entity.pk), name) == 2


@pytest.mark.parametrize("name", ["task", "worker", "agent_job", "patch_ledger"])
def test_the_fencing_number_of_a_machine_that_leases_only_rises(name) -> None:
    assert "attempt" in worlds.registry.flow(name).monotonic


def test_plain_fields_change_by_an_edit_without_a_transition() -> None:
    entity = world.touched(world.idle_worker(), capabilities=["git"], metadata={"rack": 7})
    assert (entity.capabilities, entity.metadata, entity.version) == (["git"], {"rack": 7}, 3)


def test_volatile_fields_change_without_an_event() -> None:
    entity = world.touched(world.idle_worker(), last_heartbeat=now(), draining=True)
    assert (entity.draining, entity.version) == (True, 2)


# The triggers themselves


def rebuild(name: str, column: str) -> None:
    """Two migrations that widen a column and undo it, for which SQLite rebuilds the table."""
    now_, wider = ProjectState.from_apps(apps), ProjectState.from_apps(apps)
    field = copy(apps.get_model("statecore", name)._meta.get_field(column))
    field.max_length += 1
    widen = migrations.AlterField(name, column, field)
    widen.state_forwards("statecore", wider)
    for before, after in ((now_, wider), (wider, now_)):
        with connection.schema_editor() as editor:
            widen.database_forwards("statecore", editor, before, after)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["Event", "Worker"])
def test_the_triggers_survive_a_migration_that_rebuilds_the_table(name) -> None:
    entity = world.worker()
    before = trace(entity)
    rebuild(name, "actor" if name == "Event" else "worker_type")

    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")

    assert trigger_check.find_problems(connection) == []
    for statement in ("UPDATE statecore_worker SET state = 'idle'", "DELETE FROM statecore_event"):
        with pytest.raises(DatabaseError), transaction.atomic():
            run_sql(statement)
    assert trace(entity) == before


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_a_rebuilt_table_without_its_triggers_is_reported() -> None:
    rebuild("Worker", "worker_type")
    try:
        assert [problem.name for problem in trigger_check.find_problems(connection)] == [
            f"statecore_guard_statecore_worker_{action}" for action in ("delete", "insert", "update")
        ]
    finally:
        triggers.install(connection)


@pytest.mark.django_db(transaction=True)
def test_migrate_puts_lost_triggers_back() -> None:
    triggers.remove(connection)
    assert trigger_check.find_problems(connection)

    call_command("migrate", verbosity=0)

    assert trigger_check.find_problems(connection) == []


def test_every_table_is_guarded() -> None:
    guarded = {table for _name, table in triggers.installed(connection)}
    assert {"statecore_event", *(flow.model._meta.db_table for flow in worlds.flows())} <= guarded
    assert trigger_check.find_problems(connection) == []


def test_installing_the_triggers_twice_changes_nothing() -> None:
    before = triggers.installed(connection)
    triggers.install(connection)
    assert triggers.installed(connection) == before


def test_lowered_triggers_are_back_afterwards() -> None:
    entity = world.run()
    with triggers.disabled(connection):
        assert triggers.installed(connection) == {}
    with pytest.raises(DatabaseError), transaction.atomic():
        raw_update(entity)


@pytest.mark.sqlite
def test_only_the_transition_service_writes_the_log_of_an_agent_job() -> None:
    job = world.created("AgentJob")
    with pytest.raises(DatabaseError), transaction.atomic():
        job.events.create(sequence=2, type="job_completed", actor="mallory", at=job.created_at)


def test_a_successor_stays_the_successor_of_what_it_followed() -> None:
    task = world.forced(world.task(), "failed")
    heir = transitions.retry(type(task), task.pk, actor=world.operator()).entity
    with pytest.raises(DatabaseError), transaction.atomic():
        type(task).objects.filter(pk=heir.pk).update(retry_of=None)
