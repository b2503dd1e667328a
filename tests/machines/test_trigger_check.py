"""The check of the guards finds every way to weaken them, and names what to do."""

import pytest
from django.db import connection, transaction

from statecore.operations import integrity
from statecore.storage import trigger_check
from tests.support import world

pytestmark = pytest.mark.django_db

TABLE = "statecore_task"
UPDATE = f"statecore_guard_{TABLE}_update"
FUNCTION = f"statecore_guard_{TABLE}"
# PostgreSQL names triggers per table.
ON_TABLE = f" ON {TABLE}" if connection.vendor == "postgresql" else ""
SAME_FUNCTION = f"FOR EACH ROW EXECUTE FUNCTION {FUNCTION}()"


def run_sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        # A table with pending checks of foreign keys cannot be altered.
        for statement in ("SET CONSTRAINTS ALL IMMEDIATE" if connection.vendor == "postgresql" else "", *statements):
            if statement:
                cursor.execute(statement)


def names() -> list[str]:
    return [problem.name for problem in trigger_check.find_problems(connection)]


def test_guards_as_defined_have_no_problems() -> None:
    world.task()
    assert names() == []


def test_a_dropped_trigger_is_reported() -> None:
    run_sql(f"DROP TRIGGER {UPDATE}{ON_TABLE}")
    assert names() == [UPDATE]


# Attack 7: the check was blind to these.

CHANGED = {
    "disabled": [f"ALTER TABLE {TABLE} DISABLE TRIGGER {UPDATE}"],
    "for replicas only": [f"ALTER TABLE {TABLE} ENABLE REPLICA TRIGGER {UPDATE}"],
    "for one column": [f"CREATE OR REPLACE TRIGGER {UPDATE} BEFORE UPDATE OF priority ON {TABLE} {SAME_FUNCTION}"],
    "for another event": [f"CREATE OR REPLACE TRIGGER {UPDATE} BEFORE DELETE ON {TABLE} {SAME_FUNCTION}"],
    "after the event": [f"CREATE OR REPLACE TRIGGER {UPDATE} AFTER UPDATE ON {TABLE} {SAME_FUNCTION}"],
    "with a condition": [
        f"""CREATE OR REPLACE TRIGGER {UPDATE} BEFORE UPDATE ON {TABLE}
        FOR EACH ROW WHEN (OLD.priority > 9) EXECUTE FUNCTION {FUNCTION}()"""
    ],
    "with an empty function": [
        "CREATE FUNCTION harmless() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        f"CREATE OR REPLACE TRIGGER {UPDATE} BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION harmless()",
    ],
}


@pytest.mark.postgres
@pytest.mark.parametrize("attack", CHANGED.values(), ids=CHANGED.keys())
def test_a_changed_trigger_is_reported(attack: list[str]) -> None:
    enable = [] if "ALTER" in attack[0] else [f"ALTER TABLE {TABLE} ENABLE ALWAYS TRIGGER {UPDATE}"]
    run_sql(*attack, *enable)
    assert names() == [UPDATE]


CHANGED_FUNCTIONS = {
    "another body": [
        f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    ],
    "a pinned setting": [f"ALTER FUNCTION {FUNCTION}() SET search_path = public, pg_catalog"],
    "the rights of its owner": [f"ALTER FUNCTION {FUNCTION}() SECURITY DEFINER"],
    "another owner": ["CREATE ROLE mallory", f"ALTER FUNCTION {FUNCTION}() OWNER TO mallory"],
    "another schema": ["CREATE SCHEMA elsewhere", f"ALTER FUNCTION {FUNCTION}() SET SCHEMA elsewhere"],
}


@pytest.mark.postgres
@pytest.mark.parametrize("attack", CHANGED_FUNCTIONS.values(), ids=CHANGED_FUNCTIONS.keys())
def test_a_changed_function_is_reported_for_each_of_its_triggers(attack: list[str]) -> None:
    run_sql(*attack)
    assert names() == [f"{FUNCTION}_{action}" for action in ("delete", "insert", "truncate", "update")]


@pytest.mark.sqlite
def test_a_trigger_with_another_text_is_reported() -> None:
    run_sql(
        f"DROP TRIGGER {UPDATE}",
        f"CREATE TRIGGER {UPDATE} BEFORE UPDATE OF priority ON {TABLE} WHEN FALSE BEGIN SELECT 1; END",
    )
    assert names() == [UPDATE]


@pytest.mark.parametrize("table", [TABLE, "statecore_event", "statecore_patch", "statecore_task_depends_on"])
def test_a_foreign_trigger_that_runs_later_is_reported(table: str) -> None:
    if connection.vendor == "postgresql":
        run_sql(
            "CREATE FUNCTION rewrite() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            f"CREATE TRIGGER zzz BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION rewrite()",
        )
    else:
        run_sql(f"CREATE TRIGGER zzz AFTER UPDATE ON {table} BEGIN SELECT 1; END")
    (problem,) = trigger_check.find_problems(connection)
    assert str(problem) == f"zzz is a foreign trigger on {table}: drop it"


@pytest.mark.postgres
def test_a_foreign_rule_is_reported() -> None:
    run_sql(f"CREATE RULE nothing AS ON UPDATE TO {TABLE} DO INSTEAD NOTHING")
    assert names() == ["nothing"]


@pytest.mark.postgres
def test_row_security_is_reported() -> None:
    run_sql(f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY")
    assert names() == [TABLE]


@pytest.mark.postgres
def test_foreign_keys_that_are_switched_off_are_reported() -> None:
    run_sql("ALTER TABLE statecore_testgate DISABLE TRIGGER ALL")
    problems = trigger_check.find_problems(connection)
    assert any("is a constraint of statecore_testgate that is switched off" in str(problem) for problem in problems)


PINNED = {
    "a role": "ALTER ROLE CURRENT_USER SET session_replication_role = replica",
    "every role": "ALTER ROLE ALL SET session_replication_role = replica",
    "a function": "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET session_replication_role = replica AS 'SELECT 1'",
}


@pytest.mark.postgres
@pytest.mark.parametrize("attack", PINNED.values(), ids=PINNED.keys())
def test_a_pinned_setting_is_reported(attack: str) -> None:
    run_sql(attack)
    (problem,) = trigger_check.find_problems(connection)
    assert "is pinned on" in str(problem)


@pytest.mark.postgres
def test_a_setting_pinned_on_this_database_is_reported() -> None:
    run_sql(f"ALTER DATABASE {connection.settings_dict['NAME']} SET session_replication_role = replica")
    (problem,) = trigger_check.find_problems(connection)
    assert f"is pinned on every role in {connection.settings_dict['NAME']}" in str(problem)


@pytest.mark.postgres
def test_a_weakened_connection_is_reported() -> None:
    with transaction.atomic():
        run_sql("SET LOCAL session_replication_role = replica")
        assert names() == ["session_replication_role"]


def test_a_view_in_place_of_a_table_is_reported() -> None:
    run_sql(
        "ALTER TABLE statecore_phase RENAME TO hidden_phase",
        "CREATE VIEW statecore_phase AS SELECT * FROM hidden_phase",
    )
    assert names() == ["statecore_phase"]


def test_problems_are_findings_of_every_integrity_check() -> None:
    run_sql(f"DROP TRIGGER {UPDATE}{ON_TABLE}")
    for check in (integrity.check_all, integrity.check_recent):
        assert [finding.check for finding in check()] == ["triggers"]
