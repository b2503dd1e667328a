"""In whose name a call is made."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from statecore.kernel.actors import Actor, Channel, Kind
from statecore.kernel.flow import Flow
from statecore.records.token import Scope, Token

from .request import Request


def acting(request: Request) -> Actor:
    """An agent for a token of scope `agent` and for every tool of a language model, an operator for others."""
    if isinstance(request.auth, Token) and (tool := _tool(request)):
        return replace(request.auth.as_agent(), tool=tool)
    return request.auth.actor() if isinstance(request.auth, Token) else _browsing(request.user)


def _tool(request: Request) -> str:
    """Only this process can put it there: it is no header."""
    return str(getattr(request, "scope", {}).get("statecore.tool", ""))


def acting_as_agent(request: Request) -> Actor:
    """For the calls of agents: a token whose scope includes `agent` acts as one; a person at a browser does not."""
    if isinstance(request.auth, Token) and request.auth.may(Scope.AGENT):
        tool = _tool(request)
        return replace(request.auth.as_agent(), tool=tool) if tool else request.auth.as_agent()
    return acting(request)


def firing(request: Request, flow: Flow, trigger: str) -> Actor:
    """Scopes include those before them: what only agents fire, an operator's token fires as an agent."""
    return acting_as_agent(request) if trigger in _for_agents_only(flow) else acting(request)


@cache
def _for_agents_only(flow: Flow) -> frozenset[str]:
    kinds: dict[str, set[Kind]] = {}
    for move in flow.moves:
        kinds.setdefault(move.trigger, set()).update(move.actors)
    return frozenset(name for name, who in kinds.items() if Kind.AGENT in who and Kind.OPERATOR not in who)


def _browsing(user: Any) -> Actor:
    return Actor.operator(user, Channel.REST)
