"""A worker's calls while it lives: heartbeat and claim. Decoded by hand and answered without a second look."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import Meta
from rest_framework.request import Request

from statecore import scheduling
from statecore.kernel.actors import Actor

from . import bodies, idempotency
from .actors import acting_as_agent
from .views import ApiView

LONGEST_WAIT = 30


class Heartbeat(ApiView):
    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body = bodies.read(request)
        key = idempotency.key_of(request, body)
        bodies.shaped(body, bodies.Body)
        actor = acting_as_agent(request)
        return idempotency.reply(idempotency.once(key, actor, lambda: scheduling.beat(worker_id, actor=actor)))


class Wanted(bodies.Body):
    """How many tasks, and how many seconds to wait for the first of them."""

    max: Annotated[int, Meta(ge=1)] | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0


def claim_once(worker_id: str, wanted: Wanted, actor: Actor) -> dict[str, Any]:
    """One look at the queue, and the answer to it: no tasks when there are none."""
    claimed = scheduling.claim(worker_id, actor=actor, most=wanted.max)
    return {"tasks": [task.as_dict() for task in claimed]}


class Claim(ApiView):
    def post(self, request: Request, worker_id: str) -> HttpResponse:
        body = bodies.read(request)
        key = idempotency.key_of(request, body)
        wanted, actor = bodies.shaped(body, Wanted), acting_as_agent(request)

        def ask() -> dict[str, Any]:
            return claim_once(worker_id, wanted, actor)

        # Nothing claimed is nothing to repeat: a poll that waits asks again under its key.
        return idempotency.reply(idempotency.once(key, actor, ask, is_kept=lambda told: bool(told["tasks"])))
