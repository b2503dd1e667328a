"""Idempotency keys: a repeated request changes nothing and gets the stored response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import orjson
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from prometheus_client import Counter

from ..journal import ENDPOINT_LENGTH, KEY_LENGTH, IdempotencyRecord
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.refusals import IdempotencyMismatch, Invalid
from ..kernel.validation import text_error
from ..storage.rows import persistent_cursor
from .outcome import Outcome

requests_total = Counter(
    "statecore_idempotent_requests_total",
    "Requests with an idempotency key: answered from the record (hit) or executed (miss)",
    ["result"],
)
W = TypeVar("W")  # the unit of work
RECORDS = IdempotencyRecord._meta.db_table
# One statement where the ORM takes five: agents send a key with every request.
RESERVE = f"""
INSERT INTO {RECORDS} (actor, actor_kind, key, endpoint, body_hash, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (actor, actor_kind, key) DO UPDATE SET endpoint = excluded.endpoint, body_hash = excluded.body_hash,
    response = NULL, created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE {RECORDS}.expires_at <= excluded.created_at
RETURNING id
"""


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


def answer_once(request: RequestKey, actor: Actor, step: Callable[[W], Outcome], work: W) -> Outcome:
    """Run the step unless this actor has used the key before; must be called inside the step's transaction.

    The record is inserted first: a second request with the same key waits on the unique index until the first
    commits, and then finds its response. A refusal rolls the record back with everything else, so it may be repeated.
    """
    while (number := _reserve(request, actor)) is None:
        # None if the record has expired and been deleted in between.
        if (record := _records(request, actor).first()) is not None:
            replayed = _replay(record, request)  # a mismatch is refused, and is no hit
            requests_total.labels("hit").inc()
            return replayed
    requests_total.labels("miss").inc()
    outcome = step(work)
    _store(number, outcome)
    return outcome


def forget(request: RequestKey, actor: Actor) -> None:
    """Delete the record, for a request that found nothing and may be repeated under the same key."""
    _records(request, actor).delete()


def _records(request: RequestKey, actor: Actor) -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(actor=actor.name, actor_kind=actor.kind, key=request.key)


def _reserve(request: RequestKey, actor: Actor) -> int | None:
    """Insert a record, or replace an expired one, and return its id; None if the key is in use."""
    connection, at = connections[DEFAULT_DB_ALIAS], now()
    adapt: Any = connection.ops.adapt_datetimefield_value
    lifetime = timedelta(seconds=settings.STATECORE_IDEMPOTENCY_SECONDS)
    identity = [actor.name, str(actor.kind), request.key]
    cursor = persistent_cursor(connection)
    cursor.execute(RESERVE, [*identity, request.endpoint, request.body_hash, adapt(at), adapt(at + lifetime)])
    for (number,) in cursor.fetchall():
        return int(number)
    return None


def _store(number: int, outcome: Outcome) -> None:
    connection = connections[DEFAULT_DB_ALIAS]
    given = "%s::jsonb" if connection.vendor == "postgresql" else "%s"
    response = orjson.dumps(outcome.as_dict()).decode()
    persistent_cursor(connection).execute(f"UPDATE {RECORDS} SET response = {given} WHERE id = %s", [response, number])


def _replay(record: IdempotencyRecord, request: RequestKey) -> Outcome:
    if (record.endpoint, record.body_hash) != (request.endpoint, request.body_hash):
        raise IdempotencyMismatch(f"the key {request.key!r} was used for another request", endpoint=record.endpoint)
    return Outcome(None, None, answer=record.response or {}, replayed=True)
