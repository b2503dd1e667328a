"""ASGI types, reading scopes, and sending refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from statecore.kernel.refusals import Invalid, Refusal

from ..responses import DATABASE_UNAVAILABLE, as_refusal, problem

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Exceptions that are sent to the caller if nothing was sent yet.
REFUSED = (Refusal, *DATABASE_UNAVAILABLE)


def read_header(scope: Scope, name: bytes) -> str:
    """Return the first header of this name; empty if it is missing."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def read_query(scope: Scope) -> dict[str, list[str]]:
    try:
        return parse_qs(scope["query_string"].decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise Invalid({"query": ["cannot be decoded."]}) from None


def render_refusal(error: Exception) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of a refusal, as the views of the API render it."""
    response = problem(as_refusal(error))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    return response.status_code, [*headers, (b"content-length", str(len(response.content)).encode())], response.content


async def refuse(error: Exception, send: Send) -> None:
    status, headers, body = render_refusal(error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
