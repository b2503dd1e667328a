"""In whose name a call is made."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from statecore.kernel.actors import Actor, Channel, Kind
from statecore.kernel.flow import Flow
from statecore.records.token import Scope, Token


def acting(request: Request) -> Actor:
    """An agent for a token of scope `agent`, an operator for every other caller."""
    return request.auth.actor() if isinstance(request.auth, Token) else _browsing(request.user)


def acting_as_agent(request: Request) -> Actor:
    """For the calls of agents: a token whose scope includes `agent` acts as one; a person at a browser does not."""
    if isinstance(request.auth, Token) and request.auth.may(Scope.AGENT):
        return request.auth.as_agent()
    return acting(request)


def firing(request: Request, flow: Flow, trigger: str) -> Actor:
    """Scopes include those before them: what only agents fire, an operator's token fires as an agent."""
    kinds = {kind for move in flow.moves if move.trigger == trigger for kind in move.actors}
    for_agents_only = Kind.AGENT in kinds and Kind.OPERATOR not in kinds
    return acting_as_agent(request) if for_agents_only else acting(request)


def _browsing(user: Any) -> Actor:
    return Actor.operator(user, Channel.REST)
