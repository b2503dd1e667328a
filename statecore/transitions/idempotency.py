"""Idempotency keys: a repeated request changes nothing and gets the stored response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import orjson
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from prometheus_client import Counter

from ..journal import ENDPOINT_LENGTH, KEY_LENGTH, IdempotencyRecord
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.refusals import IdempotencyMismatch, Invalid
from ..kernel.validation import text_error
from ..records.proof import NO_PROOF, NotProven, Proof
from ..storage.rows import persistent_cursor
from .outcome import Outcome

requests_total = Counter(
    "statecore_idempotent_requests_total",
    "Requests with an idempotency key: answered from the record (hit) or executed (miss)",
    ["result"],
)
W = TypeVar("W")  # the unit of work
RECORDS = IdempotencyRecord._meta.db_table
# Statements where the ORM takes five: agents send a key with every request.
STORE = f"""
INSERT INTO {RECORDS} (actor, actor_kind, key, endpoint, body_hash, response, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, {{json}}, %s, %s)
ON CONFLICT (actor, actor_kind, key) DO UPDATE SET endpoint = excluded.endpoint, body_hash = excluded.body_hash,
    response = excluded.response, created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE {RECORDS}.expires_at <= excluded.created_at
RETURNING id
"""
FIND = f"""
SELECT {{lock}}, {{proof}}, record.endpoint, record.body_hash, record.response FROM (SELECT 1) AS one
LEFT JOIN {RECORDS} AS record ON record.actor = %s AND record.actor_kind = %s AND record.key = %s
    AND record.expires_at > %s
"""
KEY_LOCK = "advisory_xact_lock(hashtextextended(%s, 9))"
JSON = {"postgresql": "%s::jsonb", "sqlite": "%s"}
# On SQLite transactions never run at the same time.
TRY_LOCK = {"postgresql": f"pg_try_{KEY_LOCK}", "sqlite": "%s IS NOT NULL"}


class KeyInUse(OperationalError):
    """Another request has stored a response under the same key in the meantime: the step is repeated."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Identifies a request by the caller's key, the endpoint and the hash of the body."""

    key: str
    endpoint: str
    body_hash: str

    def __post_init__(self) -> None:
        complaint = text_error(self.key, KEY_LENGTH) if self.key else "must not be empty."
        if complaint := complaint or text_error(self.endpoint, ENDPOINT_LENGTH):
            raise Invalid({"idempotency_key": [complaint]})


def answer_once(
    request: RequestKey,
    actor: Actor,
    step: Callable[[W], Outcome],
    work: W,
    *,
    is_kept: Callable[[Outcome], bool] = lambda outcome: True,
    proof: Proof = NO_PROOF,
) -> Outcome:
    """Run the step unless this actor has used the key before; must be called inside the step's transaction.

    A second request with the same key waits until the first commits, and then finds its response. The record is written
    once, with the response; an outcome that `is_kept` rejects, and a refusal, leave none, so they may be repeated.
    Raises NotProven if the proof does not hold.
    """
    if (stored := _find(request, actor, proof)) is not None:
        replayed = _replay(stored, request)  # a mismatch is refused, and is no hit
        requests_total.labels("hit").inc()
        return replayed
    requests_total.labels("miss").inc()
    outcome = step(work)
    if is_kept(outcome):
        _store(request, actor, outcome)
    return outcome


class Stored(NamedTuple):
    endpoint: str
    body_hash: str
    response: Any


def _find(request: RequestKey, actor: Actor, proof: Proof) -> Stored | None:
    """Lock the key until the end of the transaction, check the proof, and return what is stored under the key."""
    connection = connections[DEFAULT_DB_ALIAS]
    cursor = persistent_cursor(connection)
    identity = [actor.name, str(actor.kind), request.key]
    lock, at = "\n".join(identity), connection.ops.adapt_datetimefield_value(now())
    find = FIND.format(lock=TRY_LOCK[connection.vendor], proof=proof.sql or "true")
    while True:
        cursor.execute(find, [lock, *proof.params, *identity, at])
        ((is_locked, is_proven, endpoint, body_hash, response),) = cursor.fetchall()
        if not is_proven:
            raise NotProven
        if is_locked:
            break
        # The record of the request that holds the lock is visible to the next statement only.
        cursor.execute(f"SELECT pg_{KEY_LOCK} IS NULL", [lock])
        cursor.fetchall()
    return None if endpoint is None else Stored(endpoint, body_hash, _read_json(response))


def _read_json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def _store(request: RequestKey, actor: Actor, outcome: Outcome) -> None:
    """Insert the record, or replace an expired one."""
    connection, at = connections[DEFAULT_DB_ALIAS], now()
    adapt: Any = connection.ops.adapt_datetimefield_value
    lifetime = timedelta(seconds=settings.STATECORE_IDEMPOTENCY_SECONDS)
    cursor = persistent_cursor(connection)
    identity = [actor.name, str(actor.kind), request.key]
    response = orjson.dumps(outcome.as_dict()).decode()
    fields = [request.endpoint, request.body_hash, response, adapt(at), adapt(at + lifetime)]
    cursor.execute(STORE.format(json=JSON[connection.vendor]), [*identity, *fields])
    if not cursor.fetchall():
        raise KeyInUse(f"the key {request.key!r} is in use")


def _replay(stored: Stored, request: RequestKey) -> Outcome:
    if (stored.endpoint, stored.body_hash) != (request.endpoint, request.body_hash):
        raise IdempotencyMismatch(f"the key {request.key!r} was used for another request", endpoint=stored.endpoint)
    return Outcome(None, None, answer=stored.response or {}, replayed=True)
