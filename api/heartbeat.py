"""A worker says that it lives, and hears what it has to stop: the call that is made most often.

Whoever made it before is let in, and heard, by one statement. Wherever that one finds nothing to do, the call takes the
usual way, which does the rest or says why not.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.conf import settings
from django.http import HttpResponse
from msgspec import Meta

from statecore import scheduling
from statecore.kernel.refusals import Refusal
from statecore.machines.worker import Worker
from statecore.records.proof import proof
from statecore.records.token import Scope, Token, hashed

from . import authentication, bodies, throttling
from .actors import acting_as_agent
from .claims import MOST_HELD, Held
from .posted import Posted
from .request import Request
from .views import ApiView, answer


class Alive(bodies.Body):
    """What the agent is at, if it says so: it is told which of that it has to stop."""

    holds: Annotated[list[Held], Meta(max_length=MOST_HELD)] | None = None

    def pairs(self) -> set[tuple[str, int]] | None:
        return None if self.holds is None else {(held.task, held.attempt) for held in self.holds}


class Heartbeat(ApiView):
    flow = Worker.flow

    def answered(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        token = _seen_before(request)
        if token is None:
            return super().answered(request, *args, **kwargs)
        try:
            response = self.at_once(request, token, **kwargs)
        except Refusal:
            self.admit(request)  # whoever may not call at all hears that first
            raise
        return super().answered(request, *args, **kwargs) if response is None else response

    def at_once(self, request: Request, token: Token, worker_id: str) -> HttpResponse | None:
        throttling.check(request, token)
        asked = Posted(request, Alive)
        if asked.key is not None:
            return None
        shown = proof(token, self.permission(request))
        told = scheduling.beat_if(shown, worker_id, actor=token.as_agent(), holds=asked.said.pairs())
        if told is None:
            return None
        request.auth, request.user = token, token.user
        return answer(told)

    def post(self, request: Request, worker_id: str) -> HttpResponse:
        asked, actor = Posted(request, Alive), acting_as_agent(request)
        holds = asked.said.pairs()
        response = asked.once(actor, lambda: scheduling.beat(worker_id, actor=actor, holds=holds))
        _remember(request.auth)
        return response


# By their hash. Whose a token is never changes, and is all that is kept of it; whether it is good is asked each time.
_seen: dict[str, Token] = {}
MOST_SEEN = 10_000


def _seen_before(request: Request) -> Token | None:
    """The token of a plain heartbeat: an agent's, of which the journal and the log know the token's name alone."""
    if request.method != "POST" or settings.STATECORE_READ_ONLY_FOR_PROGRAMS:
        return None
    text = authentication.text_of(request.META.get(authentication.HEADER, ""))
    return _seen.get(hashed(text))


def _remember(token: Token | None) -> None:
    if token is None or token.scope != Scope.AGENT:
        return
    if len(_seen) >= MOST_SEEN:
        _seen.clear()
    _seen[token.hash] = token
