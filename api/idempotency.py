"""The same request twice: its key, and the answers of calls that are not a single change at the door."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse

from statecore.door import Outcome, RequestKey
from statecore.door.idempotency import answer_once, forget
from statecore.door.perform import perform
from statecore.journal import KEY_LENGTH
from statecore.kernel.actors import Actor
from statecore.kernel.plain import text_complaint
from statecore.kernel.refusals import Invalid

from .bodies import raw_body
from .request import Request
from .views import answer

HEADER = "HTTP_IDEMPOTENCY_KEY"
IN_BODY = "request_id"
VISIBLE = re.compile(r"[!-~]{1,200}")
REPLAYED = "Idempotent-Replayed"


def key_of(request: Request, body: dict[str, Any]) -> RequestKey | None:
    """Takes `request_id` out of the body; the header counts where both are given."""
    is_in_body, in_body = IN_BODY in body, body.pop(IN_BODY, None)
    if is_in_body and (text_complaint(in_body, KEY_LENGTH) or not in_body):
        raise Invalid({IN_BODY: [f"must be text of 1 to {KEY_LENGTH} characters, without NUL."]})
    key = request.META.get(HEADER)
    if key is not None and not VISIBLE.fullmatch(key):
        raise Invalid({"Idempotency-Key": ["must be 1 to 200 visible ASCII characters."]})
    key = in_body if key is None else key
    if key is None:
        return None
    endpoint = f"{request.method} {request.path}"
    return RequestKey(key, endpoint, hashlib.sha256(raw_body(request)).hexdigest())


class Told(Outcome):
    """An answer that is not about one entity."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def once(
    key: RequestKey | None,
    actor: Actor,
    ask: Callable[[], dict[str, Any]],
    *,
    is_kept: Callable[[Any], bool] = lambda told: True,
) -> Outcome:
    """Ask, or tell again what was told under this key: question and record are one transaction.

    With `is_kept`, an answer it says no to is not kept: the same question gets a new one.
    """

    def step() -> Outcome:
        return Told(None, None, answer=ask())

    def kept() -> Outcome:
        outcome = answer_once(key, actor, step)
        if key is not None and not outcome.replayed and not is_kept(outcome.answer):
            forget(key, actor)
        return outcome

    return step() if key is None else perform(kept)


def reply(outcome: Outcome, body: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    response = answer(outcome.as_dict() if body is None else body, status)
    if outcome.replayed:
        response[REPLAYED] = "true"
    return response
