"""The triggers of SQLite: they refuse a write unless the connection has enabled the write guard."""

from __future__ import annotations

from collections.abc import Iterator

from .guarded_tables import PREFIX, GuardedTable, Link, is_illegal_edit, is_illegal_exit, is_state_unchanged, quote
from .write_guard import RETENTION, TRANSITIONS

ACTIONS = ("insert", "update", "delete")
TRIGGERS = (
    "SELECT name, tbl_name, sql FROM sqlite_master "
    "WHERE type = 'trigger' AND tbl_name IN (SELECT value FROM json_each(%s))"
)
TRANSITIONS_ARE_REFUSED, DELETION_IS_REFUSED = f"NOT {TRANSITIONS}()", f"NOT {RETENTION}()"


def drop(name: str, table: str) -> str:
    return f"DROP TRIGGER IF EXISTS {name}"


def build_statements(guarded: GuardedTable, schema: str) -> Iterator[str]:
    for (name, table), text in build_texts(guarded).items():
        yield drop(name, table)
        yield text


def build_texts(guarded: GuardedTable) -> dict[tuple[str, str], str]:
    texts = {}
    for action, (when, sentence) in zip(ACTIONS, _build_rules(guarded), strict=True):
        name = f"{PREFIX}{guarded.table}_{action}"
        texts[name, guarded.table] = (
            f"CREATE TRIGGER {name} BEFORE {action.upper()} ON {guarded.table} WHEN {when} "
            f"BEGIN SELECT RAISE(ABORT, {quote(sentence)}); END"
        )
    return texts


def _build_rules(guarded: GuardedTable) -> Iterator[tuple[str, str]]:
    """Yields the condition and the error message of each trigger, in the order of the actions."""
    flow = guarded.flow
    if guarded.is_open:
        # INSERT OR REPLACE would delete the row without firing the trigger of DELETE.
        replaces = f"EXISTS (SELECT 1 FROM {guarded.table} WHERE id = NEW.id)"
        yield replaces, f"rows of {guarded.table} cannot be replaced"
        yield "TRUE", guarded.change_error
    elif guarded.link is not None:
        yield f"{TRANSITIONS_ARE_REFUSED} AND {_has_digests(guarded.link, 'NEW')}", guarded.insertion_error
        of_either = f"({_has_digests(guarded.link, 'OLD')} OR {_has_digests(guarded.link, 'NEW')})"
        yield f"{TRANSITIONS_ARE_REFUSED} AND {of_either}", guarded.change_error
    elif flow is None:
        without_entry = " OR NEW.journal_entry = ''" if guarded.is_journaled else ""
        yield f"{TRANSITIONS_ARE_REFUSED}{without_entry}", guarded.insertion_error
        yield "TRUE", guarded.change_error
    else:
        yield f"{TRANSITIONS_ARE_REFUSED} OR NEW.state <> {quote(flow.initial)}", guarded.insertion_error
        changed = f"NOT (NEW.id IS OLD.id AND {is_state_unchanged('IS', 'OLD', 'NEW')})"
        illegal = f"{TRANSITIONS_ARE_REFUSED} OR NEW.id <> OLD.id OR ({is_illegal_exit(flow, 'OLD', 'NEW')})"
        edited = is_illegal_edit(guarded, flow, "IS NOT", "OLD", "NEW")
        yield f"{changed} AND ({illegal}) OR {edited}", guarded.change_error
    yield DELETION_IS_REFUSED if guarded.is_archivable else "TRUE", guarded.deletion_error


def _has_digests(link: Link, row: str) -> str:
    """SQL that is false only for a link of an entity of an earlier version, which has no digests."""
    recorded = f"SELECT link_digests FROM {link.owners} WHERE id = {row}.{link.own}"
    return f"coalesce(({recorded}), 'none') <> ''"
