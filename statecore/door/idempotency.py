"""The same request twice is one change and one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from django.conf import settings
from django.db.models import QuerySet
from prometheus_client import Counter

from ..journal import ENDPOINT_LENGTH, KEY_LENGTH, IdempotencyRecord
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.plain import text_complaint
from ..kernel.refusals import IdempotencyMismatch, Invalid
from .outcome import Outcome
from .work import current

requests_total = Counter(
    "statecore_idempotent_requests_total",
    "Requests with a key: answered from the record (hit) or anew (miss)",
    ["result"],
)
RECORDS = IdempotencyRecord._meta.db_table
# One statement where the ORM takes five: agents send a key with everything they do.
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
    """What identifies a request: the caller's key, where it was sent, and the hash of what it said."""

    key: str
    endpoint: str
    body_hash: str

    def __post_init__(self) -> None:
        complaint = text_complaint(self.key, KEY_LENGTH) if self.key else "must not be empty."
        if complaint := complaint or text_complaint(self.endpoint, ENDPOINT_LENGTH):
            raise Invalid({"idempotency_key": [complaint]})


def answer_once(request: RequestKey | None, actor: Actor, step: Callable[[], Outcome]) -> Outcome:
    """Run the step unless this actor's key was seen; must be called inside the step's transaction.

    The record is inserted first: a second request with the same key waits on the unique index until the first
    commits, and then finds its answer. A refusal rolls the record back with everything else, so it may be retried.
    """
    if request is None:
        return step()
    while (number := _reserve(request, actor)) is None:
        # None if it expired this very moment and was swept away.
        if (record := _kept(request, actor).first()) is not None:
            requests_total.labels("hit").inc()
            return _replay(record, request)
    requests_total.labels("miss").inc()
    outcome = step()
    _keep(number, outcome)
    return outcome


def forget(request: RequestKey, actor: Actor) -> None:
    """As if it had never been asked: for a question that found nothing, and is worth asking again."""
    _kept(request, actor).delete()


def _kept(request: RequestKey, actor: Actor) -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(actor=actor.name, actor_kind=actor.kind, key=request.key)


def _reserve(request: RequestKey, actor: Actor) -> int | None:
    """The number of the new record, which takes the place of one that has expired; None if the key was seen."""
    work, at = current(), now()
    adapt: Any = work.connection.ops.adapt_datetimefield_value
    lifetime = timedelta(seconds=settings.STATECORE_IDEMPOTENCY_SECONDS)
    whose = [actor.name, str(actor.kind), request.key]
    work.cursor.execute(RESERVE, [*whose, request.endpoint, request.body_hash, adapt(at), adapt(at + lifetime)])
    for (number,) in work.cursor.fetchall():
        return int(number)
    return None


def _keep(number: int, outcome: Outcome) -> None:
    work = current()
    given = "%s::jsonb" if work.connection.vendor == "postgresql" else "%s"
    told = orjson.dumps(outcome.as_dict()).decode()
    work.cursor.execute(f"UPDATE {RECORDS} SET response = {given} WHERE id = %s", [told, number])


def _replay(record: IdempotencyRecord, request: RequestKey) -> Outcome:
    if (record.endpoint, record.body_hash) != (request.endpoint, request.body_hash):
        raise IdempotencyMismatch(f"the key {request.key!r} was used for another request", endpoint=record.endpoint)
    return Outcome(None, None, answer=record.response or {}, replayed=True)
