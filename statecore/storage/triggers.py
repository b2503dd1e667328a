"""Database triggers that protect states, final entities and the journal from writes outside the transition service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import orjson
from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper

from ..kernel import evidence, registry
from ..kernel.flow import Flow
from .write_guard import RETENTION, TRANSITIONS, WriteGuard

PREFIX = "statecore_guard_"


def install(connection: BaseDatabaseWrapper) -> None:
    """Installs every trigger. Idempotent; runs after each migrate, because rebuilding a table drops its triggers."""
    dialect = _dialect(connection)
    with connection.cursor() as cursor:
        for guarded in _guarded_tables(connection):
            # After a part of the migrations, columns may be missing. Django's introspection takes longer than the rest.
            cursor.execute(f"SELECT * FROM {guarded.table} LIMIT 0")
            existing = {column[0] for column in cursor.description}
            evident = tuple(name for name in guarded.evidence if name in existing)
            for statement in dialect.statements(replace(guarded, evidence=evident)):
                cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        for name, table in sorted(installed(connection)):
            cursor.execute(f"DROP TRIGGER {name}{_dialect(connection).on(table)}")


@contextmanager
def disabled(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Removes the triggers inside the block: for restoring a backup and for emptying a test database."""
    remove(connection)
    try:
        yield
    finally:
        install(connection)


def definitions(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition that each trigger of an existing table should have, by its name and table."""
    dialect = _dialect(connection)
    return {key: text for guarded in _guarded_tables(connection) for key, text in dialect.texts(guarded).items()}


def installed(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition of each of these triggers in the database, by its name and table."""
    found = read_all(connection)
    return {(name, table): text for (name, table), text in found.items() if name.startswith(PREFIX)}


def read_all(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition of every trigger on these tables, whatever created it, by its name and table."""
    with connection.cursor() as cursor:
        cursor.execute(_dialect(connection).triggers, [orjson.dumps(tables()).decode()])
        return {(name, table): text for name, table, text in cursor.fetchall()}


def tables() -> list[str]:
    """Returns the tables of this application and of every machine, with the tables of their links."""
    labels = {"statecore", *(flow.model._meta.app_label for flow in registry.flows())}
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.app_label in labels})


@dataclass(frozen=True, slots=True)
class GuardedTable:
    """A table with triggers: the table of a machine has a flow; rows of the others can be added, not changed."""

    table: str
    flow: Flow | None
    # Whether retention may delete rows; only from the tables of the journal.
    is_archivable: bool = False
    # Whether any code may add rows.
    is_open: bool = False
    # Columns that change only with an event.
    evidence: tuple[str, ...] = ()


def _guarded_tables(connection: BaseDatabaseWrapper) -> list[GuardedTable]:
    found = [
        GuardedTable(model._meta.db_table, None, getattr(model, "is_archivable", False))
        for model in apps.get_models()
        if getattr(model, "append_only", False)
    ]
    found += [
        GuardedTable(model._meta.db_table, None, is_open=True)
        for model in apps.get_models()
        if getattr(model, "write_once", False)
    ]
    found += [
        GuardedTable(flow.model._meta.db_table, flow, evidence=tuple(dict(evidence.columns(flow.model).defaults)))
        for flow in registry.flows()
    ]
    existing = set(connection.introspection.table_names())
    return [guarded for guarded in found if guarded.table in existing]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _states(states: Iterable[str]) -> str:
    return ", ".join(_quoted(str(state)) for state in sorted(states))


def _illegal_exit(flow: Flow) -> str:
    """SQL that is true if an UPDATE leaves a final state other than by a declared exit."""
    if not flow.final:
        return "FALSE"
    exits = [
        f"(OLD.state = {_quoted(source)} AND NEW.state = {_quoted(target)})"
        for source, target in sorted(flow.final_exits())
    ]
    return f"NEW.state <> OLD.state AND OLD.state IN ({_states(flow.final)}) AND NOT ({' OR '.join(exits) or 'FALSE'})"


def _illegal_edit(guarded: GuardedTable, flow: Flow, differs: str) -> str:
    """SQL that is true if an UPDATE changes evidence without an event or a frozen field, or decreases a number."""
    rules = [f"NEW.{name} < OLD.{name}" for name in flow.monotonic]
    changed = " OR ".join(f'NEW."{name}" {differs} OLD."{name}"' for name in guarded.evidence)
    rules.append(f"(NEW.version = OLD.version AND ({changed}))")
    for name, states in flow.frozen.items():
        while_open = f" AND OLD.state NOT IN ({_states(states)})" if states else ""
        rules.append(f"(NEW.{name} {differs} OLD.{name}{while_open})")
    return " OR ".join(rules) or "FALSE"


def _deletion_error(guarded: GuardedTable) -> str:
    exception = " except by retention" if guarded.is_archivable else ""
    return f"rows of {guarded.table} cannot be deleted{exception}"


def _update_error(flow: Flow) -> str:
    name = flow.entity_type
    return f"only the transition service changes {name} rows; final states, evidence and frozen fields stay"


def _state_is_unchanged(same: str) -> str:
    return " AND ".join(f"NEW.{column} {same} OLD.{column}" for column in ("id", "state", "version", "chain_head"))


class _SQLite:
    actions = ("insert", "update", "delete")
    triggers = (
        "SELECT name, tbl_name, sql FROM sqlite_master "
        "WHERE type = 'trigger' AND tbl_name IN (SELECT value FROM json_each(%s))"
    )

    @staticmethod
    def is_closed(guard: WriteGuard) -> str:
        return f"NOT {guard.function}()"

    @staticmethod
    def on(table: str) -> str:
        return ""

    def statements(self, guarded: GuardedTable) -> Iterator[str]:
        for (name, _table), text in self.texts(guarded).items():
            yield f"DROP TRIGGER IF EXISTS {name}"
            yield text

    def texts(self, guarded: GuardedTable) -> dict[tuple[str, str], str]:
        texts = {}
        for action, (when, sentence) in zip(self.actions, self._rules(guarded), strict=True):
            name = f"{PREFIX}{guarded.table}_{action}"
            texts[name, guarded.table] = (
                f"CREATE TRIGGER {name} BEFORE {action.upper()} ON {guarded.table} WHEN {when} "
                f"BEGIN SELECT RAISE(ABORT, {_quoted(sentence)}); END"
            )
        return texts

    def _rules(self, guarded: GuardedTable) -> Iterator[tuple[str, str]]:
        """Yields the condition and the error message of each trigger, in the order of the actions."""
        flow = guarded.flow
        if guarded.is_open:
            # INSERT OR REPLACE would delete the row without firing the trigger of DELETE.
            replaces = f"EXISTS (SELECT 1 FROM {guarded.table} WHERE id = NEW.id)"
            yield (replaces, f"rows of {guarded.table} cannot be replaced")
            yield ("TRUE", f"rows of {guarded.table} cannot be changed")
        elif flow is None:
            yield (self.is_closed(TRANSITIONS), f"only the transition service adds rows to {guarded.table}")
            yield ("TRUE", f"{guarded.table} is append-only: rows cannot be changed")
        else:
            yield (
                f"{self.is_closed(TRANSITIONS)} OR NEW.state <> {_quoted(flow.initial)}",
                f"only the transition service creates {flow.entity_type} rows",
            )
            changed = f"NOT ({_state_is_unchanged('IS')})"
            illegal = f"{self.is_closed(TRANSITIONS)} OR NEW.id <> OLD.id OR ({_illegal_exit(flow)})"
            yield (
                f"{changed} AND ({illegal}) OR {_illegal_edit(guarded, flow, 'IS NOT')}",
                _update_error(flow),
            )
        yield (self.is_closed(RETENTION) if guarded.is_archivable else "TRUE", _deletion_error(guarded))


class _PostgreSQL:
    actions = ("insert", "update", "delete", "truncate")
    # The definition of a trigger has its events, columns, condition and time; that of its function all but the body.
    triggers = """
        SELECT t.tgname::text, c.relname::text,
            concat_ws(E'\\n', pg_get_triggerdef(t.oid, true), t.tgenabled, l.lanname, f.prosecdef, f.proconfig,
                f.pronamespace = c.relnamespace AND f.proowner = c.relowner, f.prosrc)
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        JOIN pg_proc AS f ON f.oid = t.tgfoid JOIN pg_language AS l ON l.oid = f.prolang
        WHERE NOT t.tgisinternal
          AND c.oid IN (SELECT to_regclass(quote_ident(name)) FROM json_array_elements_text(%s) AS name)
    """

    @staticmethod
    def is_closed(guard: WriteGuard) -> str:
        return f"current_setting('{guard.setting}', true) IS DISTINCT FROM 'open'"

    @staticmethod
    def on(table: str) -> str:
        return f" ON {table}"

    def statements(self, guarded: GuardedTable) -> Iterator[str]:
        function = f"{PREFIX}{guarded.table}"
        body = self._body(guarded)
        yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $guard${body}$guard$"
        # A table with pending deferred constraints cannot be altered.
        yield "SET CONSTRAINTS ALL IMMEDIATE"
        for action in self.actions:
            yield self._trigger(guarded, action).replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
            # These triggers fire even with session_replication_role = replica.
            yield f"ALTER TABLE {guarded.table} ENABLE ALWAYS TRIGGER {self._name(guarded, action)}"
        yield "SET CONSTRAINTS ALL DEFERRED"

    def texts(self, guarded: GuardedTable) -> dict[tuple[str, str], str]:
        """Returns the definitions as `triggers` reads them: always enabled, no SECURITY DEFINER, no pinned setting."""
        body = self._body(guarded)
        return {
            (self._name(guarded, action), guarded.table): "\n".join(
                [self._trigger(guarded, action), "A", "plpgsql", "f", "t", body]
            )
            for action in self.actions
        }

    @staticmethod
    def _name(guarded: GuardedTable, action: str) -> str:
        return f"{PREFIX}{guarded.table}_{action}"

    def _trigger(self, guarded: GuardedTable, action: str) -> str:
        """Returns the statement as pg_get_triggerdef() formats it."""
        each = "STATEMENT" if action == "truncate" else "ROW"
        return (
            f"CREATE TRIGGER {self._name(guarded, action)} BEFORE {action.upper()} ON {guarded.table} "
            f"FOR EACH {each} EXECUTE FUNCTION {PREFIX}{guarded.table}()"
        )

    def _body(self, guarded: GuardedTable) -> str:
        """The comparisons are in the body because columns used in a WHEN clause cannot be altered."""
        flow = guarded.flow
        if guarded.is_open:
            insert, update = "", self._refuse("TRUE", f"rows of {guarded.table} cannot be changed")
        elif flow is None:
            insert = self._refuse(
                self.is_closed(TRANSITIONS), f"only the transition service adds rows to {guarded.table}"
            )
            update = self._refuse("TRUE", f"{guarded.table} is append-only: rows cannot be changed")
        else:
            insert = self._refuse(
                f"{self.is_closed(TRANSITIONS)} OR NEW.state <> {_quoted(flow.initial)}",
                f"only the transition service creates {flow.entity_type} rows",
            )
            changed = f"NOT ({_state_is_unchanged('=')})"
            illegal = f"{self.is_closed(TRANSITIONS)} OR NEW.id <> OLD.id OR ({_illegal_exit(flow)})"
            update = self._refuse(
                f"{changed} AND ({illegal}) OR {_illegal_edit(guarded, flow, 'IS DISTINCT FROM')}",
                _update_error(flow),
            )
        delete = self._refuse("TRUE", _deletion_error(guarded))
        if guarded.is_archivable:
            refuse = self._refuse(self.is_closed(RETENTION), _deletion_error(guarded))
            delete = f"IF TG_OP = 'DELETE' THEN {refuse} RETURN OLD; END IF; {delete}"
        return (
            f" BEGIN IF TG_OP = 'INSERT' THEN {insert} RETURN NEW; "
            f"ELSIF TG_OP = 'UPDATE' THEN {update} RETURN NEW; END IF; {delete} END "
        )

    @staticmethod
    def _refuse(when: str, sentence: str) -> str:
        error = "USING ERRCODE = 'integrity_constraint_violation'"
        return f"IF {when} THEN RAISE EXCEPTION {_quoted(sentence)} {error}; END IF;"


def _dialect(connection: BaseDatabaseWrapper) -> _SQLite | _PostgreSQL:
    return _PostgreSQL() if connection.vendor == "postgresql" else _SQLite()
