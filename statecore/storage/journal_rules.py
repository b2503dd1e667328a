"""The rules of the journal in PostgreSQL's language: which events, positions and deletions the triggers accept.

An event is accepted if its hash and its columns match its body, and if it is part of the chain that its statement adds
to an entity: either the row of the entity has the hash of the event, or the next event of the same statement has. The
row is compared with its previous head by the trigger of its table, so a chain cannot be extended from another place.
Accounts, epochs and holds have no row of a machine; their entries must follow the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db.models import Model

from ..kernel import registry
from .guarded_tables import GuardedTable, quote

GENESIS = "0" * 64
# The entity types of entries: of accounts, of the journal itself, which has those of its epochs, and of holds.
ACCOUNT, JOURNAL, HOLD = "account", "journal", "hold"
ENTRY_TYPES = (ACCOUNT, JOURNAL, HOLD)
TIMESTAMP = """to_char(timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
PREFIX_END = '","details":'
DECLARE = "DECLARE each_type text; checked text[] := '{}'; "
_SAME_EVENT = "{0}.entity_type = n.entity_type AND {0}.entity_id = n.entity_id AND {0}.sequence = n.sequence"


def _table(name: str) -> str:
    return str(apps.get_model("statecore", name)._meta.db_table)


def refuse(sentence: str, rows: str = "") -> str:
    """Returns statements that raise an error, always or if the query finds rows."""
    raise_ = f"RAISE EXCEPTION {quote(sentence)} USING ERRCODE = 'integrity_constraint_violation';"
    return f"IF EXISTS ({rows}) THEN {raise_} END IF;" if rows else raise_


# What the row `n` of a machine is compared with. Each is a subquery by the unique index of the chain, because a join
# could be planned for one row and executed for thousands, and an EXISTS for few events and executed for all.


def select_first_hash(entity_type: str) -> str:
    """Selects the hash of the event that created the row `n`."""
    return (
        f"SELECT e.hash FROM {_table('Event')} AS e WHERE e.entity_type = {quote(entity_type)} AND e.entity_id = n.id "
        f"AND e.sequence = 1 AND e.prev_hash = '{GENESIS}' AND e.from_state = '' AND e.to_state = n.state"
    )


def select_next_hash(entity_type: str) -> str:
    """Selects the hash of the event that leads from the row `o` to the row `n`, one version later."""
    return (
        f"SELECT e.hash FROM {_table('Event')} AS e WHERE e.entity_type = {quote(entity_type)} AND e.entity_id = n.id "
        f"AND e.sequence = n.version AND e.prev_hash = o.chain_head AND e.from_state = o.state AND e.to_state = n.state"
    )


def count_new_events(entity_type: str) -> str:
    """Counts the events that lead from the row `o` to the row `n`, each of which follows the one before."""
    events, of_entity = _table("Event"), f"entity_type = {quote(entity_type)}"
    return (
        f"SELECT count(*) FROM {events} AS e WHERE e.{of_entity} AND e.entity_id = n.id "
        f"AND e.sequence > o.version AND e.sequence <= n.version "
        f"AND CASE WHEN e.sequence = o.version + 1 THEN e.prev_hash = o.chain_head AND e.from_state = o.state "
        f"ELSE EXISTS (SELECT 1 FROM {events} AS p WHERE p.{of_entity} AND p.entity_id = e.entity_id "
        f"AND p.sequence = e.sequence - 1 AND p.hash = e.prev_hash AND p.to_state = e.from_state) END "
        f"AND (e.sequence < n.version OR (e.hash = n.chain_head AND e.to_state = n.state))"
    )


# The tables of the journal


def check_added_rows(guarded: GuardedTable) -> str:
    return (_check_added_events if guarded.table == _table("Event") else _check_added_positions)(guarded)


def find_kept(guarded: GuardedTable) -> str:
    """Selects the deleted rows that should have been kept: only rows of archived positions are deleted.

    A position is deleted after its event. Otherwise the sequencer would give the event another one.
    """
    archived = f"(SELECT coalesce(max(last_position), 0) FROM {_table('ArchivedRange')})"
    if guarded.table == _table("Event"):
        position = f"(SELECT p.position FROM {_table('Position')} AS p WHERE p.event_id = o.event_id)"
        return f"SELECT 1 FROM old_rows AS o WHERE coalesce({position} > {archived}, TRUE)"
    event = f"SELECT 1 FROM {_table('Event')} AS e WHERE e.event_id = o.event_id"
    return f"SELECT 1 FROM old_rows AS o WHERE o.position > {archived} OR EXISTS ({event})"


def find_without_entry() -> str:
    """Selects the new records that no entry of the account journal covers."""
    entry = f"SELECT 1 FROM {_table('Event')} AS e WHERE e.event_id = n.journal_entry AND e.entity_type = '{ACCOUNT}'"
    return f"SELECT 1 FROM new_rows AS n WHERE NOT EXISTS ({entry})"


def _check_added_events(guarded: GuardedTable) -> str:
    """Evaluates one query for each machine with events, because a query over all machines would lock all tables.

    Neither here nor below is an aggregate or a DISTINCT: for one event these cost more than the comparison itself.
    """
    checks = {flow.entity_type: _check_claims(guarded, flow.entity_type, flow.model) for flow in registry.flows()}
    checks |= {each: refuse(guarded.insertion_error, _find_unconnected_entries(each)) for each in ENTRY_TYPES}
    branches = "".join(f"WHEN {quote(entity_type)} THEN {check} " for entity_type, check in checks.items())
    differs = refuse(f"columns, body and hash of a row of {guarded.table} differ")
    return (
        f"FOREACH each_type IN ARRAY ARRAY({_select_types()}) LOOP CONTINUE WHEN each_type = ANY (checked); "
        f"checked := checked || each_type; CASE each_type {branches}WHEN '' THEN {differs} "
        f"ELSE {refuse(guarded.insertion_error)} END CASE; END LOOP;"
    )


def _check_claims(guarded: GuardedTable, entity_type: str, model: type[Model]) -> str:
    """Most statements add one event to each row, so the cheap query comes first."""
    refusal = refuse(guarded.insertion_error, _find_unclaimed(entity_type, model))
    return f"IF EXISTS ({_find_other_than_heads(entity_type, model)}) THEN {refusal} END IF;"


def _select_types() -> str:
    """Selects the entity type of each new event, or an empty text if its columns, body and hash differ.

    One query, because each costs more than reading one event.
    """
    digest, prefix = "encode(sha256(convert_to(n.body, 'UTF8')), 'hex')", format_body_prefix(TIMESTAMP)
    differs = f"n.hash <> {digest} OR NOT starts_with(n.body, {prefix})"
    return f"SELECT CASE WHEN {differs} THEN '' ELSE n.entity_type END FROM new_rows AS n"


def format_body_prefix(timestamp: str) -> str:
    """Returns an expression for the beginning of the body of an event; format() takes half the time of operators."""
    texts, values = zip(*list_body_prefix(timestamp), strict=True)
    return f"format({quote('%s'.join([*texts, PREFIX_END]))}, {', '.join(values)})"


def list_body_prefix(timestamp: str) -> Iterator[tuple[str, str]]:
    """Yields how the body of an event begins, before PREFIX_END: a text, then the value of a column in SQL."""
    fields = [str(field.column) for field in apps.get_model("statecore", "Event")._meta.concrete_fields]
    glue = "{"
    for name in fields[: fields.index("body")]:
        mark = "" if name == "sequence" else '"'
        yield f'{glue}"{name}":{mark}', timestamp if name == "timestamp" else name
        glue = f"{mark},"


def _find_other_than_heads(entity_type: str, model: type[Model]) -> str:
    """Selects the new events of a machine that are not the head of a row, or were archived."""
    archived = f"SELECT 1 FROM {_table('Anchor')} AS a WHERE {_SAME_EVENT.format('a')}"
    return (
        f"SELECT 1 FROM new_rows AS n WHERE n.entity_type = {quote(entity_type)} "
        f"AND (SELECT r.chain_head FROM {model._meta.db_table} AS r WHERE r.id = n.entity_id "
        f"AND NOT EXISTS ({archived})) IS DISTINCT FROM n.hash"
    )


def _find_unclaimed(entity_type: str, model: type[Model]) -> str:
    """Selects the new events of a machine that are neither the head of a row nor followed by another new event.

    An archived event cannot be added again, although it may be the head of its row.
    """
    return (
        f"SELECT 1 FROM new_rows AS n WHERE n.entity_type = {quote(entity_type)} "
        f"AND ((SELECT r.chain_head FROM {model._meta.db_table} AS r WHERE r.id = n.entity_id) "
        f"IS DISTINCT FROM n.hash AND (n.entity_type, n.entity_id, n.sequence + 1, n.hash) NOT IN "
        f"(SELECT s.entity_type, s.entity_id, s.sequence, s.prev_hash FROM new_rows AS s) "
        f"OR (SELECT TRUE FROM {_table('Anchor')} AS a WHERE {_SAME_EVENT.format('a')}))"
    )


def _find_unconnected_entries(entity_type: str) -> str:
    """Selects the new entries of this type that do not follow the last entry, the last archived one or nothing."""
    chain = "{0}.entity_type = n.entity_type AND {0}.entity_id = n.entity_id"
    anchors = f"FROM {_table('Anchor')} AS a WHERE {chain.format('a')} ORDER BY a.sequence DESC LIMIT 1"
    return (
        f"SELECT 1 FROM new_rows AS n WHERE n.entity_type = {quote(entity_type)} AND coalesce("
        f"(SELECT e.hash FROM {_table('Event')} AS e WHERE {chain.format('e')} AND e.sequence = n.sequence - 1), "
        f"(SELECT CASE a.sequence WHEN n.sequence - 1 THEN a.hash ELSE '' END {anchors}), "
        f"CASE n.sequence WHEN 1 THEN '{GENESIS}' ELSE '' END) <> n.prev_hash"
    )


def _check_added_positions(guarded: GuardedTable) -> str:
    """Positions continue without a gap, and their columns are copies of those of the event."""
    positions, copied = guarded.table, ("entity_type", "kind", "severity", "actor")
    event = f"SELECT ROW({', '.join(f'e.{name}' for name in copied)}) FROM {_table('Event')} AS e"
    archived = f"(SELECT max(last_position) FROM {_table('ArchivedRange')})"
    return refuse(
        guarded.insertion_error,
        f"SELECT 1 FROM (SELECT min(position) AS first, max(position) AS last, count(*) AS number FROM new_rows) AS n "
        f"WHERE n.last - n.first + 1 <> n.number OR n.last <> (SELECT max(position) FROM {positions}) "
        f"OR n.first <> coalesce((SELECT p.position + 1 FROM {positions} AS p WHERE p.position < n.first "
        f"ORDER BY p.position DESC LIMIT 1), {archived} + 1, 1) "
        f"UNION ALL SELECT 1 FROM new_rows AS n "
        f"WHERE ({event} WHERE e.event_id = n.event_id) IS DISTINCT FROM ROW({', '.join(f'n.{c}' for c in copied)})",
    )
