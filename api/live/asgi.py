"""The shapes of ASGI, and reading what a scope says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from statecore.kernel.refusals import Invalid, Refusal

from ..problems import DATABASE_IS_AWAY, as_refusal, problem

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


# What whoever asks is told, before anything was sent.
REFUSED = (Refusal, *DATABASE_IS_AWAY)


def header(scope: Scope, name: bytes) -> str:
    """The first of this name; empty without one."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def query(scope: Scope) -> dict[str, list[str]]:
    try:
        return parse_qs(scope["query_string"].decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise Invalid({"query": ["cannot be read."]}) from None


def rendered(error: Exception) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """As every refusal of the API is told: status, headers and body."""
    response = problem(as_refusal(error))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    return response.status_code, [*headers, (b"content-length", str(len(response.content)).encode())], response.content


async def refuse(error: Exception, send: Send) -> None:
    status, headers, body = rendered(error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
