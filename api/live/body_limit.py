"""Limits the size of bodies before Django writes them to disk, which it does before any view is called."""

from __future__ import annotations

import re

from django.conf import settings

from statecore.kernel.refusals import TooLarge

from .asgi import Application, Message, Receive, Scope, Send, read_header, render_refusal

ARTIFACT = re.compile(r"/api/v1/tasks/[^/]+/artifacts/[^/]+")


class BodyLimit:
    """Refuses bodies that no view would accept, and passes all other requests to `application`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = _find_limit(scope)
        announced = read_header(scope, b"content-length")
        if announced.isdigit() and int(announced) > limit:
            await _refuse(limit, send)
            return
        body = CountedBody(receive, limit)
        await self.application(scope, body.receive, send)
        if body.is_too_large:  # Django has taken the end of the body for an aborted request, and sent nothing
            await _refuse(limit, send)


class CountedBody:
    """A body of unknown size, which ends when it exceeds the limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.source, self.left = receive, limit
        self.is_too_large = False

    async def receive(self) -> Message:
        message = await self.source()
        self.left -= len(message.get("body", b""))
        if self.left >= 0:
            return message
        self.is_too_large = True
        return {"type": "http.disconnect"}


def _find_limit(scope: Scope) -> int:
    is_artifact = scope["method"] == "PUT" and ARTIFACT.fullmatch(scope["path"])
    limit: int = settings.STATECORE_ARTIFACT_BYTES if is_artifact else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return limit


async def _refuse(limit: int, send: Send) -> None:
    """Close the connection too: otherwise the server would read the rest of the body, whatever its size."""
    status, headers, body = render_refusal(TooLarge(f"the body is larger than {limit} bytes", limit=limit))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
