"""Guards the disk from bodies, which Django writes to it before any view is called.

A body that no view would accept is refused, and so is a large one of a caller without a valid token or session.
"""

from __future__ import annotations

import re

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections

from statecore.artifacts import upload
from statecore.kernel.refusals import TooLarge

from ..refusals import SIZE_NEEDED, LengthRequired
from .access import find_caller
from .asgi import REFUSED, Application, Message, Receive, Scope, Send, read_header, render_refusal

ARTIFACT = re.compile(r"/api/v1/tasks/[^/]+/artifacts/[^/]+")


class BodyLimit:
    """Refuses such bodies, and passes all other requests to `application`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except REFUSED as error:
            await _refuse(error, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        announced = read_header(scope, b"content-length")
        if _is_artifact(scope):
            if not announced.isdigit():
                raise LengthRequired(SIZE_NEEDED)
            if int(announced) > limit:
                await sync_to_async(_authenticate, thread_sensitive=False)(scope)
                limit = settings.STATECORE_ARTIFACT_BYTES
        if announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        body = CountedBody(receive, limit)
        await _call(self.application, scope, body.receive, send)
        if body.is_too_large:  # Django has taken the end of the body for an aborted request, and sent nothing
            raise _too_large(limit)


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


def _is_artifact(scope: Scope) -> bool:
    return scope["method"] == "PUT" and ARTIFACT.fullmatch(scope["path"]) is not None


def _authenticate(scope: Scope) -> None:
    """The view counts the call, and checks what the caller may do."""
    try:
        find_caller(scope)
    finally:
        connections.close_all()  # they belong to the thread of this call


async def _call(application: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Raises StorageUnavailable if the disk is full, unless a response has begun."""
    has_begun = False

    async def send_and_note(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await application(scope, receive, send_and_note)
    except OSError as error:
        if has_begun or not upload.is_disk_full(error):
            raise
        raise upload.disk_is_full(error) from error


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes", limit=limit)


async def _refuse(error: Exception, send: Send) -> None:
    """Close the connection too: otherwise the server would read the rest of the body, whatever its size."""
    status, headers, body = render_refusal(error)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
