"""The same request twice is one change and one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from prometheus_client import Counter

from ..journal import ENDPOINT_LENGTH, KEY_LENGTH, IdempotencyRecord
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.plain import text_complaint
from ..kernel.refusals import IdempotencyMismatch, Invalid
from .outcome import Outcome

requests_total = Counter(
    "statecore_idempotent_requests_total",
    "Requests with a key: answered from the record (hit) or anew (miss)",
    ["result"],
)


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
    record, is_first = _reserve(request, actor)
    requests_total.labels("miss" if is_first else "hit").inc()
    if not is_first:
        return _replay(record, request)
    outcome = step()
    record.response = outcome.as_dict()
    record.save(update_fields=["response"])
    return outcome


def forget(request: RequestKey, actor: Actor) -> None:
    """As if it had never been asked: for a question that found nothing, and is worth asking again."""
    IdempotencyRecord.objects.filter(actor=actor.name, actor_kind=actor.kind, key=request.key).delete()


def _reserve(request: RequestKey, actor: Actor) -> tuple[IdempotencyRecord, bool]:
    at = now()
    mine = {"actor": actor.name, "actor_kind": actor.kind, "key": request.key}
    IdempotencyRecord.objects.filter(**mine, expires_at__lte=at).delete()
    lifetime = timedelta(seconds=settings.STATECORE_IDEMPOTENCY_SECONDS)
    return IdempotencyRecord.objects.get_or_create(
        **mine,
        defaults={
            "endpoint": request.endpoint,
            "body_hash": request.body_hash,
            "created_at": at,
            "expires_at": at + lifetime,
        },
    )


def _replay(record: IdempotencyRecord, request: RequestKey) -> Outcome:
    if (record.endpoint, record.body_hash) != (request.endpoint, request.body_hash):
        raise IdempotencyMismatch(f"the key {request.key!r} was used for another request", endpoint=record.endpoint)
    return Outcome(None, None, answer=record.response or {}, replayed=True)
