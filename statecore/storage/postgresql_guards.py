"""The triggers of PostgreSQL: they accept a write only if rows and events agree afterwards, whatever wrote them.

No setting, function or role opens these guards. They compare the rows that a statement has changed with the events that
it has added, once per statement and at its end. Each statement leaves every row in agreement with its last event, and
every event in the chain of its row; so does each commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..kernel.flow import Flow
from . import journal_rules
from .guarded_tables import (
    PREFIX,
    GuardedTable,
    Link,
    is_evidence_changed,
    is_illegal_exit,
    is_state_unchanged,
    list_illegal_values,
    quote,
)
from .journal_rules import refuse

# The definition of a trigger has its events, columns, condition and time; that of its function all but the body. The
# search path is pinned, so that a temporary table or a function of another schema cannot take the place of a name.
TRIGGERS = """
    SELECT t.tgname::text, c.relname::text,
        concat_ws(E'\\n', pg_get_triggerdef(t.oid, true), t.tgenabled, l.lanname, f.prosecdef,
            f.proconfig = ARRAY['search_path=pg_catalog, ' || quote_ident(n.nspname) || ', pg_temp'],
            f.pronamespace = c.relnamespace AND f.proowner = c.relowner, f.prosrc)
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_proc AS f ON f.oid = t.tgfoid JOIN pg_language AS l ON l.oid = f.prolang
    WHERE NOT t.tgisinternal
      AND c.oid IN (SELECT to_regclass(quote_ident(name)) FROM json_array_elements_text(%s) AS name)
"""
# Always enabled, no SECURITY DEFINER, the search path pinned, in the schema of its table and with the same owner.
PROPERTIES = ("A", "plpgsql", "f", "t", "t")

BEFORE_ROW = "BEFORE {action} ON {table} FOR EACH ROW"
BEFORE_STATEMENT = "BEFORE {action} ON {table} FOR EACH STATEMENT"
AFTER_INSERT = "AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT"
AFTER_UPDATE = "AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT"
AFTER_DELETE = "AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT"
# A full join, because it is always a hash or merge join: the plan is kept, whatever the size of later statements.
# It also has the rows that got another id.
CHANGED_ROWS = "old_rows AS o FULL JOIN new_rows AS n ON n.id = o.id"


class Rule(NamedTuple):
    """When a trigger fires, and what its function does."""

    event: str
    body: str


def drop(name: str, table: str) -> str:
    return f"DROP TRIGGER IF EXISTS {name} ON {table}"


def build_statements(guarded: GuardedTable, schema: str) -> Iterator[str]:
    yield (
        f"CREATE OR REPLACE FUNCTION {PREFIX}{guarded.table}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = pg_catalog, {schema}, pg_temp AS $guard${_build_body(guarded)}$guard$"
    )
    # A table with pending deferred constraints cannot be altered.
    yield "SET CONSTRAINTS ALL IMMEDIATE"
    for action, rule in _build_rules(guarded).items():
        yield _build_trigger(guarded, action, rule).replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
        # These triggers fire even with session_replication_role = replica.
        yield f"ALTER TABLE {guarded.table} ENABLE ALWAYS TRIGGER {_build_name(guarded, action)}"
    yield "SET CONSTRAINTS ALL DEFERRED"


def build_texts(guarded: GuardedTable) -> dict[tuple[str, str], str]:
    """Returns the definitions as `TRIGGERS` reads them."""
    body = _build_body(guarded)
    return {
        (_build_name(guarded, action), guarded.table): "\n".join(
            [_build_trigger(guarded, action, rule), *PROPERTIES, body]
        )
        for action, rule in _build_rules(guarded).items()
    }


def _build_name(guarded: GuardedTable, action: str) -> str:
    return f"{PREFIX}{guarded.table}_{action}"


def _build_trigger(guarded: GuardedTable, action: str, rule: Rule) -> str:
    """Returns the statement as pg_get_triggerdef() formats it."""
    event = rule.event.format(action=action.upper(), table=guarded.table)
    return f"CREATE TRIGGER {_build_name(guarded, action)} {event} EXECUTE FUNCTION {PREFIX}{guarded.table}()"


def _build_body(guarded: GuardedTable) -> str:
    branches = [f"IF TG_OP = '{action.upper()}' THEN {rule.body} " for action, rule in _build_rules(guarded).items()]
    return f" {journal_rules.DECLARE}BEGIN {'ELS'.join(branches)}END IF; RETURN NULL; END "


def _build_rules(guarded: GuardedTable) -> dict[str, Rule]:
    """Returns the rules by action. Whether a role may add rows to a table without a rule is a matter of its rights."""
    rules = {}
    if guarded.flow is not None:
        rules["insert"] = Rule(AFTER_INSERT, _check_created_rows(guarded, guarded.flow))
        rules["update"] = Rule(AFTER_UPDATE, _check_changed_rows(guarded, guarded.flow))
    elif guarded.link is not None:
        rules["insert"] = Rule(AFTER_INSERT, _check_links(guarded, guarded.link, "new_rows"))
        rules["update"] = Rule(AFTER_UPDATE, _check_links(guarded, guarded.link, "old_rows", "new_rows"))
    elif guarded.is_archivable:
        rules["insert"] = Rule(AFTER_INSERT, journal_rules.check_added_rows(guarded))
        rules["update"] = Rule(BEFORE_ROW, refuse(guarded.change_error))
    else:
        rules["update"] = Rule(BEFORE_ROW, refuse(guarded.change_error))
    if guarded.is_journaled:
        rules["insert"] = Rule(AFTER_INSERT, refuse(guarded.insertion_error, journal_rules.find_without_entry()))
    rules["delete"] = Rule(BEFORE_ROW, refuse(guarded.deletion_error))
    rules["truncate"] = Rule(BEFORE_STATEMENT, refuse(guarded.deletion_error))
    if guarded.is_archivable:
        rules["delete"] = Rule(AFTER_DELETE, refuse(guarded.deletion_error, journal_rules.find_kept(guarded)))
    return rules


def _check_created_rows(guarded: GuardedTable, flow: Flow) -> str:
    return refuse(
        guarded.insertion_error,
        f"SELECT 1 FROM new_rows AS n WHERE n.state <> {quote(flow.initial)} OR n.version <> 1 "
        f"OR ({journal_rules.select_first_hash(flow.entity_type)}) IS DISTINCT FROM n.chain_head",
    )


def _check_links(guarded: GuardedTable, link: Link, *changed: str) -> str:
    """The links of each entity that the statement concerns must have the digest in its row (kernel/evidence.py).

    Subqueries, because a join could be planned for one row and executed for thousands. An entity of an earlier version
    has no digests.
    """
    owners = " UNION ".join(f"SELECT {link.own} AS id FROM {rows}" for rows in changed)
    ids = f"""string_agg(l.{link.other}, ',' ORDER BY l.{link.other} COLLATE "C")"""
    digest = (
        f"SELECT encode(sha256(convert_to({ids}, 'UTF8')), 'hex') FROM {guarded.table} AS l WHERE l.{link.own} = o.id"
    )
    recorded = f"SELECT coalesce(nullif(r.link_digests, ''), 'null') FROM {link.owners} AS r WHERE r.id = o.id"
    return refuse(
        guarded.change_error,
        f"SELECT 1 FROM (SELECT o.id, ({recorded})::jsonb AS recorded FROM ({owners}) AS o) AS o "
        f"WHERE o.recorded IS NULL "
        f"OR (o.recorded <> 'null' AND o.recorded ->> '{link.name}' IS DISTINCT FROM ({digest}))",
    )


def _check_changed_rows(guarded: GuardedTable, flow: Flow) -> str:
    """Most changed rows have one new event. Preparing the query for all cases costs more than running the first one."""
    refusal = refuse(guarded.change_error, _find_changes(flow, _is_recorded(guarded, flow)))
    return f"IF EXISTS ({_find_changes(flow, _has_next_event(flow))}) THEN {refusal} END IF;"


def _find_changes(flow: Flow, accepted: str) -> str:
    """Selects the changes of rows that are illegal or not accepted; a row without old or new values is not."""
    illegal = [*list_illegal_values(flow, "IS DISTINCT FROM", "o", "n"), is_illegal_exit(flow, "o", "n")]
    return f"SELECT 1 FROM {CHANGED_ROWS} WHERE {' OR '.join(illegal)} OR ({accepted}) IS NOT TRUE"


def _has_next_event(flow: Flow) -> str:
    return f"n.version = o.version + 1 AND ({journal_rules.select_next_hash(flow.entity_type)}) = n.chain_head"


def _is_recorded(guarded: GuardedTable, flow: Flow) -> str:
    """A row needs an event for each version, and without a new version keeps its state and evidence."""
    unchanged, evidence = is_state_unchanged("=", "o", "n"), is_evidence_changed(guarded, "IS DISTINCT FROM", "o", "n")
    return (
        f"CASE WHEN n.version = o.version THEN {unchanged} AND NOT ({evidence}) WHEN n.version > o.version "
        f"THEN ({journal_rules.count_new_events(flow.entity_type)}) = n.version - o.version END"
    )
