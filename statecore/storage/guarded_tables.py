"""The tables that have triggers, and the rules for changes of their rows that both databases share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper

from ..kernel import evidence, registry
from ..kernel.flow import Flow

PREFIX = "statecore_guard_"
LINK_DIGESTS = "link_digests"  # the column with the digests of the links of a row
JOURNAL_ENTRY = "journal_entry"  # the column that names the entry of the journal which covers a row


@dataclass(frozen=True, slots=True)
class Link:
    """A table of links: the table and the column of the entities that have them, and the column of their targets."""

    name: str
    owners: str
    own: str
    other: str


@dataclass(frozen=True, slots=True)
class GuardedTable:
    """A table with triggers: the table of a machine has a flow; rows of most others can be added, not changed."""

    table: str
    flow: Flow | None
    # Whether retention may delete rows; only from the tables of the journal.
    is_archivable: bool = False
    # Whether any code may add rows.
    is_open: bool = False
    # Columns that change only with an event.
    evidence: tuple[str, ...] = ()
    # Whether each row names the entry of the journal that covers it.
    is_journaled: bool = False
    # For a table of links, which agrees with a digest in the row of each entity.
    link: Link | None = None

    @property
    def deletion_error(self) -> str:
        exception = " except by retention" if self.is_archivable else ""
        return f"rows of {self.table} cannot be deleted{exception}"

    @property
    def change_error(self) -> str:
        if self.flow is not None:
            name = self.flow.entity_type
            return f"only the transition service changes {name} rows; final states, evidence and frozen fields stay"
        if self.link is not None:
            return f"rows of {self.table} differ from the digest of the links of their entity"
        if self.is_open:
            return f"rows of {self.table} cannot be changed"
        return f"{self.table} is append-only: rows cannot be changed"

    @property
    def insertion_error(self) -> str:
        if self.flow is not None:
            return f"only the transition service creates {self.flow.entity_type} rows"
        if self.link is not None:
            return self.change_error
        if self.is_journaled:
            return f"a row of {self.table} needs an entry of the journal"
        return f"only the transition service adds rows to {self.table}"


def list_guarded_tables(connection: BaseDatabaseWrapper) -> list[GuardedTable]:
    found = [
        GuardedTable(
            model._meta.db_table,
            None,
            getattr(model, "is_archivable", False),
            is_journaled=JOURNAL_ENTRY in {field.column for field in model._meta.concrete_fields},
        )
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
    found += [guarded for flow in registry.flows() for guarded in _list_link_tables(flow)]
    existing = set(connection.introspection.table_names())
    return [guarded for guarded in found if guarded.table in existing]


def _list_link_tables(flow: Flow) -> Iterator[GuardedTable]:
    model: Any = flow.model
    for field in model._meta.many_to_many:
        link = Link(field.name, model._meta.db_table, field.m2m_column_name(), field.m2m_reverse_name())
        yield GuardedTable(field.remote_field.through._meta.db_table, None, link=link)


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
    unrecorded = f"({new}.version = {old}.version AND ({is_evidence_changed(guarded, differs, old, new)}))"
    return " OR ".join([unrecorded, *list_illegal_values(flow, differs, old, new)])


def is_evidence_changed(guarded: GuardedTable, differs: str, old: str, new: str) -> str:
    return " OR ".join(f'{new}."{name}" {differs} {old}."{name}"' for name in guarded.evidence)


def list_illegal_values(flow: Flow, differs: str, old: str, new: str) -> list[str]:
    """Returns conditions for a changed frozen field and for a decreased number."""
    rules = [f"{new}.{name} < {old}.{name}" for name in flow.monotonic]
    for name, states in flow.frozen.items():
        while_open = f" AND {old}.state NOT IN ({_states(states)})" if states else ""
        rules.append(f"({new}.{name} {differs} {old}.{name}{while_open})")
    return rules


def is_state_unchanged(same: str, old: str, new: str) -> str:
    return " AND ".join(f"{new}.{column} {same} {old}.{column}" for column in ("state", "version", "chain_head"))
