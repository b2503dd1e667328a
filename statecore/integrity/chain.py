"""Verifying the journal: every event hashes to what it says, mirrors its columns, and follows the one before.

The database compares columns with canonical bytes and each event with its predecessor; the hashing is done here,
so that no promise about the bytes rests on the database's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection, transaction

from ..journal import GENESIS, MIRRORED, Event
from ..kernel.binary import ask_for_binary
from .finding import ERROR, Finding

CHUNK = 2_000
TIMESTAMP = {
    "postgresql": """to_char(timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
    # Django leaves the fraction out where it is zero. Anything in another form than Django's becomes a `?`.
    "sqlite": (
        "substr(timestamp, 1, 10) || CASE substr(timestamp, 11, 1) WHEN ' ' THEN 'T' ELSE '?' END "
        "|| substr(timestamp, 12, 8) || CASE length(timestamp) WHEN 19 THEN '.000000' "
        "WHEN 26 THEN substr(timestamp, 20) ELSE '?' END || 'Z'"
    ),
}


class Row(NamedTuple):
    """Texts are bytes, as they are stored: a flipped bit may leave no text that could be decoded."""

    event_id: bytes
    entity_type: bytes
    entity_id: bytes
    sequence: int
    body: bytes
    hash: bytes
    mirrors: bool
    follows: bool

    @property
    def hashes(self) -> bool:
        return sha256(self.body).hexdigest().encode() == self.hash


def verify_chain(entities: Iterable[tuple[str, str]] | None = None) -> Finding | None:
    """The first bad event in the order of entities, of all or of the given ones; None when there is none."""
    for row in _rows(entities):
        if not (row.mirrors and row.follows and row.hashes):
            return _finding(row)
    return None


def _finding(row: Row) -> Finding:
    if not row.hashes:
        why = "its bytes do not hash to its hash"
    elif not row.mirrors:
        why = "its columns differ from its bytes"
    else:
        why = "it does not follow the event before it"
    event_id, entity_type, entity_id = (text.decode(errors="replace") for text in row[:3])
    return Finding("chain", ERROR, entity_type, entity_id, f"event {event_id}, number {row.sequence}: {why}")


def _rows(entities: Iterable[tuple[str, str]] | None) -> Iterator[Row]:
    if entities is None:
        yield from _stream(_query(""), [])
    else:
        for entity_type, entity_id in entities:
            yield from _stream(_query("WHERE entity_type = %s AND entity_id = %s"), [entity_type, entity_id])


def _stream(query: str, params: list[Any]) -> Iterator[Row]:
    # A cursor that streams lives inside a transaction; the snapshot also keeps the verdict consistent.
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        ask_for_binary(cursor, connection)
        cursor.execute(query, params)
        while chunk := cursor.fetchmany(CHUNK):
            yield from map(Row._make, chunk)


def _query(where: str) -> str:
    window = "PARTITION BY entity_type, entity_id ORDER BY sequence"
    raw = "convert_to({}, 'UTF8')" if connection.vendor == "postgresql" else "CAST({} AS BLOB)"
    texts = {name: raw.format(name) for name in ("event_id", "entity_type", "entity_id", "body", "hash")}
    return f"""
        SELECT {texts["event_id"]}, {texts["entity_type"]}, {texts["entity_id"]}, sequence,
               {texts["body"]}, {texts["hash"]}, {_mirrors()} AS mirrors,
               sequence = coalesce(lag(sequence) OVER w, 0) + 1
               AND prev_hash = coalesce(lag(hash) OVER w, '{GENESIS}')
               AND from_state = coalesce(lag(to_state) OVER w, '') AS follows
        FROM {Event._meta.db_table} {where}
        WINDOW w AS ({window}) ORDER BY entity_type, entity_id, sequence
    """


def _mirrors() -> str:
    """True of a row whose canonical bytes begin with the values of its columns."""
    parts = []
    for name in MIRRORED:
        value = TIMESTAMP[connection.vendor] if name == "timestamp" else name
        quote = "" if name == "sequence" else '"'
        parts.append(f"""'"{name}":{quote}' || {value} || '{quote},'""")
    prefix = "'{' || " + " || ".join(parts) + """ || '"details":'"""
    return f"starts_with(body, {prefix})" if connection.vendor == "postgresql" else f"instr(body, {prefix}) = 1"
