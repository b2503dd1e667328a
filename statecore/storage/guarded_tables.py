"""The tables that have triggers, and the rules for changes of their rows that both databases share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper

from ..kernel import evidence, registry
from ..kernel.flow import Flow

PREFIX = "statecore_guard_"


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

    @property
    def deletion_error(self) -> str:
        exception = " except by retention" if self.is_archivable else ""
        return f"rows of {self.table} cannot be deleted{exception}"

    @property
    def change_error(self) -> str:
        if self.flow is not None:
            name = self.flow.entity_type
            return f"only the transition service changes {name} rows; final states, evidence and frozen fields stay"
        if self.is_open:
            return f"rows of {self.table} cannot be changed"
        return f"{self.table} is append-only: rows cannot be changed"

    @property
    def insertion_error(self) -> str:
        if self.flow is not None:
            return f"only the transition service creates {self.flow.entity_type} rows"
        return f"only the transition service adds rows to {self.table}"


def list_guarded_tables(connection: BaseDatabaseWrapper) -> list[GuardedTable]:
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


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _states(states: Iterable[str]) -> str:
    return ", ".join(quote(str(state)) for state in sorted(states))


def is_illegal_exit(flow: Flow, old: str, new: str) -> str:
    """SQL that is true if an UPDATE leaves a final state other than by a declared exit."""
    if not flow.final:
        return "FALSE"
    exits = [
        f"({old}.state = {quote(source)} AND {new}.state = {quote(target)})"
        for source, target in sorted(flow.final_exits())
    ]
    is_declared = " OR ".join(exits) or "FALSE"
    return f"{new}.state <> {old}.state AND {old}.state IN ({_states(flow.final)}) AND NOT ({is_declared})"


def is_illegal_edit(guarded: GuardedTable, flow: Flow, differs: str, old: str, new: str) -> str:
    """SQL that is true if an UPDATE changes evidence without an event or a frozen field, or decreases a number."""
    rules = [f"{new}.{name} < {old}.{name}" for name in flow.monotonic]
    changed = " OR ".join(f'{new}."{name}" {differs} {old}."{name}"' for name in guarded.evidence)
    rules.append(f"({new}.version = {old}.version AND ({changed}))")
    for name, states in flow.frozen.items():
        while_open = f" AND {old}.state NOT IN ({_states(states)})" if states else ""
        rules.append(f"({new}.{name} {differs} {old}.{name}{while_open})")
    return " OR ".join(rules)


def is_state_unchanged(same: str, old: str, new: str) -> str:
    return " AND ".join(f"{new}.{column} {same} {old}.{column}" for column in ("state", "version", "chain_head"))
