"""Verifies the hash chains: every event matches its hash and its columns, and follows the previous event.

Each event also has the digest of the evidence that it found, so that a row changed in between is noticed for good.

The database compares columns with bodies, and each event with the previous one or, after archived events, with the
anchor. Hashes are computed in Python, so that they do not depend on the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection

from ...journal import GENESIS, Anchor, Event
from ...journal.archive import get_last_archived_position
from ...journal.commit_order import POSITIONS
from ...storage import journal_rules
from .findings import ERROR, Finding

CHUNK = 2_000
MARKS = '"evidence":"', '","evidence_before":"'
DIGEST_LENGTH = 64
# SQLite's timestamps as bodies have them. Django omits a fraction of zero. A value in any other format gets a `?`, so
# that it does not match.
TIMESTAMP = (
    "substr(timestamp, 1, 10) || CASE substr(timestamp, 11, 1) WHEN ' ' THEN 'T' ELSE '?' END "
    "|| substr(timestamp, 12, 8) || CASE length(timestamp) WHEN 19 THEN '.000000' "
    "WHEN 26 THEN substr(timestamp, 20) ELSE '?' END || 'Z'"
)


class Row(NamedTuple):
    """On SQLite, texts are read as bytes, because a flipped bit can make them undecodable."""

    body: str | bytes
    hash: str | bytes
    columns_match: bool
    follows: bool
    event_id: str | bytes
    entity_type: str | bytes
    entity_id: str | bytes
    sequence: int
    anchored_digest: str | bytes | None


def verify_chain(entities: Iterable[tuple[str, str]] | None = None) -> Finding | None:
    """Returns the first bad event, if there is one."""
    return next(find_broken_chains(entities), None)


def find_broken_chains(entities: Iterable[tuple[str, str]] | None = None) -> Iterator[Finding]:
    """Verifies the chains of all entities, or of the given ones, and yields the first bad event of each."""
    hash_matches = _text_matches if connection.vendor == "postgresql" else _bytes_match
    marks = MARKS if connection.vendor == "postgresql" else tuple(mark.encode() for mark in MARKS)
    last_bad, last_digest = None, None
    for query, params in _build_queries(entities):
        for row in _stream(query, params):
            # By index, which is faster than by name: these lines run for every event.
            previous = last_digest if row[8] is None else row[8]
            last_digest, before = _read_digests(row[0], *marks)
            is_unchanged = before == previous or not before or not previous or row[7] == 1
            if row[2] and row[3] and is_unchanged and hash_matches(row[0], row[1]):
                continue
            bad = Row._make(row)
            if (bad.entity_type, bad.entity_id) != last_bad:
                yield _build_finding(bad, hash_matches=hash_matches(row[0], row[1]))
            last_bad = (bad.entity_type, bad.entity_id)


def _read_digests(body: Any, digest: Any, before: Any) -> tuple[Any, Any]:
    """Returns the digests of the evidence after and before the event, which are neighbours in the canonical bytes.

    Parsing the event would take several times as long. Nothing that a caller sends precedes them.
    """
    start = body.find(digest)
    if start < 0:
        return None, None
    start += len(digest)
    end = start + DIGEST_LENGTH
    after = end + len(before)
    return body[start:end], body[after : after + DIGEST_LENGTH] if body.startswith(before, end) else None


def find_mismatched_columns(first: int, last: int) -> Finding | None:
    """Returns the first event in a range of positions with columns that differ from its body."""
    within = f"SELECT event_id FROM {POSITIONS} WHERE position BETWEEN %s AND %s"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT '', '', FALSE, TRUE, event_id, entity_type, entity_id, sequence, NULL FROM {Event._meta.db_table} "
            f"WHERE event_id IN ({within}) AND NOT ({_build_column_comparison()}) ORDER BY event_id LIMIT 1",
            [first, last],
        )
        found = cursor.fetchall()
    return _build_finding(Row._make(found[0]), hash_matches=True) if found else None


def _text_matches(body: str, hash_: str) -> bool:
    return sha256(body.encode()).hexdigest() == hash_


def _bytes_match(body: bytes, hash_: bytes) -> bool:
    return sha256(body).hexdigest().encode() == hash_


def _build_finding(row: Row, *, hash_matches: bool) -> Finding:
    if not hash_matches:
        problem = "its body does not match its hash"
    elif not row.columns_match:
        problem = "its columns differ from its body"
    elif not row.follows:
        problem = "it does not follow the previous event"
    else:
        problem = "decisions or evidence in the row were changed after the previous event, without an event"
    names = (row.event_id, row.entity_type, row.entity_id)
    event_id, entity_type, entity_id = (_to_bytes(name).decode(errors="replace") for name in names)
    return Finding("chain", ERROR, entity_type, entity_id, f"event {event_id}, number {row.sequence}: {problem}")


def _to_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _build_queries(entities: Iterable[tuple[str, str]] | None) -> Iterator[tuple[str, list[str]]]:
    anchored = get_last_archived_position() > 0
    if entities is None:
        yield _build_query("", anchored=anchored), []
        return
    ids_by_machine: dict[str, list[str]] = {}
    for entity_type, entity_id in entities:
        ids_by_machine.setdefault(entity_type, []).append(entity_id)
    for entity_type, ids in ids_by_machine.items():
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            marks = ", ".join(["%s"] * len(some))
            where = f"WHERE entity_type = %s AND entity_id IN ({marks})"
            yield _build_query(where, anchored=anchored), [entity_type, *some]


def _stream(query: str, params: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yields rows while the database still reads, so that hashing and reading overlap."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            yield from cursor.cursor.stream(query, params, binary=True, size=CHUNK)
        else:
            cursor.execute(query, params)
            while chunk := cursor.fetchmany(CHUNK):
                yield from chunk


# The anchor that precedes an event, if there is one.
ANCHORS = (
    "LEFT JOIN (SELECT entity_type AS a_type, entity_id AS a_id, sequence AS a_sequence, hash AS a_hash, "
    f"to_state AS a_to_state, evidence AS a_evidence FROM {Anchor._meta.db_table}) AS anchor "
    "ON a_type = entity_type AND a_id = entity_id AND a_sequence = sequence - 1"
)


def _build_query(where: str, *, anchored: bool) -> str:
    """Joins the anchors only if events were archived."""

    def previous(name: str) -> str:
        return f"lag({name}) OVER chain, a_{name}" if anchored else f"lag({name}) OVER chain"

    text = "{}" if connection.vendor == "postgresql" else "CAST({} AS BLOB)"
    body, hash_, *names = map(text.format, ("body", "hash", "event_id", "entity_type", "entity_id"))
    return f"""
        SELECT {body}, {hash_}, {_build_column_comparison()} AS columns_match,
               sequence = coalesce({previous("sequence")}, 0) + 1
               AND prev_hash = coalesce({previous("hash")}, '{GENESIS}')
               AND from_state = coalesce({previous("to_state")}, '') AS follows,
               {", ".join(names)}, sequence, {text.format("a_evidence") if anchored else "NULL"}
        FROM {Event._meta.db_table} {ANCHORS if anchored else ""} {where}
        WINDOW chain AS (PARTITION BY entity_type, entity_id ORDER BY sequence)
        ORDER BY entity_type, entity_id, sequence
    """


def _build_column_comparison() -> str:
    """Returns an SQL condition: the body starts with the values of the columns."""
    if connection.vendor == "postgresql":
        prefix = journal_rules.format_body_prefix(journal_rules.TIMESTAMP)
        return f"starts_with(body, {prefix.replace('%', '%%')})"
    # Not printf(), which ends a text at its first NUL.
    parts = [f"'{text}' || {value}" for text, value in journal_rules.list_body_prefix(TIMESTAMP)]
    return f"instr(body, {' || '.join(parts)} || '{journal_rules.PREFIX_END}') = 1"
