"""Verifying the journal: every event hashes to what it says, mirrors its columns, and follows the one before.

The database compares columns with canonical bytes and each event with its predecessor, which for the first that is
here may be the anchor of what was retired; the hashing is done here, so that no promise about the bytes rests on the
database's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection

from ..journal import GENESIS, MIRRORED, Event
from ..records import Anchor
from ..records.commit_order import POSITIONS
from ..records.retirement import horizon
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
    """On SQLite the texts are bytes, as they are stored: a flipped bit may leave nothing that could be decoded."""

    body: str | bytes
    hash: str | bytes
    mirrors: bool
    follows: bool
    event_id: str | bytes
    entity_type: str | bytes
    entity_id: str | bytes
    sequence: int


def verify_chain(entities: Iterable[tuple[str, str]] | None = None) -> Finding | None:
    """The first bad event in the order of entities, of all or of the given ones; None when there is none."""
    hashes = _text_hashes if connection.vendor == "postgresql" else _bytes_hash
    for query, params in _queries(entities):
        for row in _stream(query, params):
            # By place, not by name: this line runs for every event there ever was.
            if not (row[2] and row[3] and hashes(row[0], row[1])):
                return _finding(Row._make(row), hashes=hashes(row[0], row[1]))
    return None


def columns_that_lie(first: int, last: int) -> Finding | None:
    """The first event between two positions whose columns say something else than its bytes."""
    within = f"SELECT event_id FROM {POSITIONS} WHERE position BETWEEN %s AND %s"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT '', '', FALSE, TRUE, event_id, entity_type, entity_id, sequence FROM {Event._meta.db_table} "
            f"WHERE event_id IN ({within}) AND NOT ({_mirrors()}) ORDER BY event_id LIMIT 1",
            [first, last],
        )
        found = cursor.fetchall()
    return _finding(Row._make(found[0]), hashes=True) if found else None


def _text_hashes(body: str, hash_: str) -> bool:
    return sha256(body.encode()).hexdigest() == hash_


def _bytes_hash(body: bytes, hash_: bytes) -> bool:
    return sha256(body).hexdigest().encode() == hash_


def _finding(row: Row, *, hashes: bool) -> Finding:
    if not hashes:
        why = "its bytes do not hash to its hash"
    elif not row.mirrors:
        why = "its columns differ from its bytes"
    else:
        why = "it does not follow the event before it"
    names = (row.event_id, row.entity_type, row.entity_id)
    event_id, entity_type, entity_id = (_bytes(name).decode(errors="replace") for name in names)
    return Finding("chain", ERROR, entity_type, entity_id, f"event {event_id}, number {row.sequence}: {why}")


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _queries(entities: Iterable[tuple[str, str]] | None) -> Iterator[tuple[str, list[str]]]:
    anchored = horizon() > 0
    if entities is None:
        yield _query("", anchored=anchored), []
        return
    query = _query("WHERE entity_type = %s AND entity_id = %s", anchored=anchored)
    yield from ((query, list(entity)) for entity in entities)


def _stream(query: str, params: list[str]) -> Iterator[tuple[Any, ...]]:
    """Rows as they come: the database goes on reading while the last ones are hashed."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            yield from cursor.cursor.stream(query, params, binary=True, size=CHUNK)
        else:
            cursor.execute(query, params)
            while chunk := cursor.fetchmany(CHUNK):
                yield from chunk


# The anchor that an event follows, if there is one.
ANCHORS = (
    "LEFT JOIN (SELECT entity_type AS a_type, entity_id AS a_id, sequence AS a_sequence, hash AS a_hash, "
    f"to_state AS a_to_state FROM {Anchor._meta.db_table}) AS anchor "
    "ON a_type = entity_type AND a_id = entity_id AND a_sequence = sequence - 1"
)


def _query(where: str, *, anchored: bool) -> str:
    """Where nothing was retired, nobody looks for anchors."""

    def before(name: str) -> str:
        return f"lag({name}) OVER chain, a_{name}" if anchored else f"lag({name}) OVER chain"

    text = "{}" if connection.vendor == "postgresql" else "CAST({} AS BLOB)"
    body, hash_, *names = map(text.format, ("body", "hash", "event_id", "entity_type", "entity_id"))
    return f"""
        SELECT {body}, {hash_}, {_mirrors()} AS mirrors,
               sequence = coalesce({before("sequence")}, 0) + 1
               AND prev_hash = coalesce({before("hash")}, '{GENESIS}')
               AND from_state = coalesce({before("to_state")}, '') AS follows,
               {", ".join(names)}, sequence
        FROM {Event._meta.db_table} {ANCHORS if anchored else ""} {where}
        WINDOW chain AS (PARTITION BY entity_type, entity_id ORDER BY sequence)
        ORDER BY entity_type, entity_id, sequence
    """


def _mirrors() -> str:
    """True of a row whose canonical bytes begin with the values of its columns."""
    prefix, glue = "'{", ""
    for name in MIRRORED:
        quote = "" if name == "sequence" else '"'
        value = TIMESTAMP[connection.vendor] if name == "timestamp" else name
        prefix += f"""{glue}"{name}":{quote}' || {value} || '{quote}"""
        glue = ","
    prefix += ""","details":'"""
    return f"starts_with(body, {prefix})" if connection.vendor == "postgresql" else f"instr(body, {prefix}) = 1"
