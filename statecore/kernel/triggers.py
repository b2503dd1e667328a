"""The last line: triggers that keep states behind the door, final states final and the journal as it was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper

from . import registry
from .flow import Flow
from .latch import DOOR, RETIRING, Latch

PREFIX = "statecore_guard_"


def install(connection: BaseDatabaseWrapper) -> None:
    """Put every trigger in place; safe to repeat. Runs after each migrate, because a table rebuild drops them."""
    dialect = _dialect(connection)
    with connection.cursor() as cursor:
        for guarded in _guarded(connection):
            for statement in dialect.statements(guarded):
                cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        for name, table in sorted(installed(connection)):
            cursor.execute(f"DROP TRIGGER {name}{_dialect(connection).on(table)}")


@contextmanager
def lowered(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Without the triggers: for emptying a test database and for restoring a backup."""
    remove(connection)
    try:
        yield
    finally:
        install(connection)


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """The triggers that should guard the tables there are, and are not there or not as they were written."""
    dialect = _dialect(connection)
    there = installed(connection)
    expected = {key: text for guarded in _guarded(connection) for key, text in dialect.texts(guarded).items()}
    return sorted(name for (name, table), text in expected.items() if there.get((name, table)) != text)


def installed(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """The text of each trigger by its name and its table; on PostgreSQL that of its function."""
    with connection.cursor() as cursor:
        cursor.execute(_dialect(connection).installed, [PREFIX])
        return {(name, table): text for name, table, text in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class Guarded:
    """A table and what its triggers refuse; a machine's table has a flow, the others are append-only."""

    table: str
    flow: Flow | None
    # Of the tables that nothing is deleted from, the journal's alone give up what was retired.
    retires: bool = False


def _guarded(connection: BaseDatabaseWrapper) -> list[Guarded]:
    found = [
        Guarded(model._meta.db_table, None, getattr(model, "retires", False))
        for model in apps.get_models()
        if getattr(model, "append_only", False)
    ]
    found += [Guarded(flow.model._meta.db_table, flow) for flow in registry.flows()]
    there = set(connection.introspection.table_names())
    return [guarded for guarded in found if guarded.table in there]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _states(states: Iterable[str]) -> str:
    return ", ".join(_quoted(str(state)) for state in sorted(states))


def _illegal_exit(flow: Flow) -> str:
    """True of an UPDATE that leaves a final state by a way no decision allows."""
    if not flow.final:
        return "FALSE"
    ways = [
        f"(OLD.state = {_quoted(source)} AND NEW.state = {_quoted(target)})"
        for source, target in sorted(flow.final_exits())
    ]
    return f"NEW.state <> OLD.state AND OLD.state IN ({_states(flow.final)}) AND NOT ({' OR '.join(ways) or 'FALSE'})"


def _illegal_edit(flow: Flow, differs: str) -> str:
    """True of an UPDATE that changes a frozen field or lowers a number that only rises."""
    rules = [f"NEW.{name} < OLD.{name}" for name in flow.rising]
    for name, states in flow.frozen.items():
        while_open = f" AND OLD.state NOT IN ({_states(states)})" if states else ""
        rules.append(f"(NEW.{name} {differs} OLD.{name}{while_open})")
    return " OR ".join(rules) or "FALSE"


def _never(guarded: Guarded) -> str:
    retired = " unless it was retired" if guarded.retires else ""
    return f"no row of {guarded.table} is ever deleted{retired}"


def _untouched(same: str) -> str:
    return " AND ".join(f"NEW.{column} {same} OLD.{column}" for column in ("id", "state", "version", "chain_head"))


class _SQLite:
    actions = ("insert", "update", "delete")
    installed = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND instr(name, %s) = 1"

    @staticmethod
    def shut(latch: Latch) -> str:
        return f"NOT {latch.function}()"

    @staticmethod
    def on(table: str) -> str:
        return ""

    def statements(self, guarded: Guarded) -> Iterator[str]:
        for (name, _table), text in self.texts(guarded).items():
            yield f"DROP TRIGGER IF EXISTS {name}"
            yield text

    def texts(self, guarded: Guarded) -> dict[tuple[str, str], str]:
        made = {}
        for action, (when, sentence) in zip(self.actions, self._rules(guarded), strict=True):
            name = f"{PREFIX}{guarded.table}_{action}"
            made[name, guarded.table] = (
                f"CREATE TRIGGER {name} BEFORE {action.upper()} ON {guarded.table} WHEN {when} "
                f"BEGIN SELECT RAISE(ABORT, {_quoted(sentence)}); END"
            )
        return made

    def _rules(self, guarded: Guarded) -> Iterator[tuple[str, str]]:
        """When the triggers fire, and what they say, in the order of the actions."""
        flow = guarded.flow
        if flow is None:
            yield (self.shut(DOOR), f"only the door adds to {guarded.table}")
            yield ("TRUE", f"{guarded.table} is append-only: no row is changed")
        else:
            yield (
                f"{self.shut(DOOR)} OR NEW.state <> {_quoted(flow.initial)}",
                f"only the door creates {flow.entity_type} rows",
            )
            moved = f"NOT ({_untouched('IS')}) AND ({self.shut(DOOR)} OR NEW.id <> OLD.id OR ({_illegal_exit(flow)}))"
            yield (
                f"{moved} OR {_illegal_edit(flow, 'IS NOT')}",
                f"only the door moves {flow.entity_type} rows; what is final or frozen stays",
            )
        yield (self.shut(RETIRING) if guarded.retires else "TRUE", _never(guarded))


class _PostgreSQL:
    actions = ("insert", "update", "delete", "truncate")
    # Enabled always: not even a session that plays a replica gets past them.
    installed = (
        "SELECT t.tgname::text, t.tgrelid::regclass::text, f.prosrc FROM pg_trigger AS t "
        "JOIN pg_proc AS f ON f.oid = t.tgfoid "
        "WHERE NOT t.tgisinternal AND t.tgenabled = 'A' AND t.tgqual IS NULL AND starts_with(t.tgname::text, %s)"
    )

    @staticmethod
    def shut(latch: Latch) -> str:
        return f"current_setting('{latch.setting}', true) IS DISTINCT FROM 'open'"

    @staticmethod
    def on(table: str) -> str:
        return f" ON {table}"

    def statements(self, guarded: Guarded) -> Iterator[str]:
        function = f"{PREFIX}{guarded.table}"
        body = self._body(guarded)
        yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $guard${body}$guard$"
        # What a transaction has yet to check would forbid altering the table.
        yield "SET CONSTRAINTS ALL IMMEDIATE"
        for (name, table), action in zip(self.texts(guarded), self.actions, strict=True):
            each = "STATEMENT" if action == "truncate" else "ROW"
            yield (
                f"CREATE OR REPLACE TRIGGER {name} BEFORE {action.upper()} ON {table} "
                f"FOR EACH {each} EXECUTE FUNCTION {function}()"
            )
            yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
        yield "SET CONSTRAINTS ALL DEFERRED"

    def texts(self, guarded: Guarded) -> dict[tuple[str, str], str]:
        body = self._body(guarded)
        return {(f"{PREFIX}{guarded.table}_{action}", guarded.table): body for action in self.actions}

    def _body(self, guarded: Guarded) -> str:
        """The comparisons stand in the body: in a WHEN clause they would forbid altering the columns."""
        flow = guarded.flow
        if flow is None:
            insert = self._refuse(self.shut(DOOR), f"only the door adds to {guarded.table}")
            update = self._refuse("TRUE", f"{guarded.table} is append-only: no row is changed")
        else:
            insert = self._refuse(
                f"{self.shut(DOOR)} OR NEW.state <> {_quoted(flow.initial)}",
                f"only the door creates {flow.entity_type} rows",
            )
            update = self._refuse(
                f"NOT ({_untouched('=')}) AND ({self.shut(DOOR)} OR NEW.id <> OLD.id OR ({_illegal_exit(flow)})) "
                f"OR {_illegal_edit(flow, 'IS DISTINCT FROM')}",
                f"only the door moves {flow.entity_type} rows; what is final or frozen stays",
            )
        delete = self._refuse("TRUE", _never(guarded))
        if guarded.retires:
            refuse = self._refuse(self.shut(RETIRING), _never(guarded))
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
