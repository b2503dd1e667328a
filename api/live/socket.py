"""The base of the WebSockets: refuses the handshake with an HTTP response, or sends frames until either side closes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

import orjson

from statecore.delivery.live import Hub, get_hub

from .access import BEARER, Caller, authenticate, check_host, check_origin
from .asgi import (
    REFUSED,
    Message,
    Receive,
    Scope,
    Send,
    render_refusal,
)
from .connections import get_connections

SEND_TIMEOUT = 20.0
REASON_BYTES = 120  # the protocol allows 123
POLICY_VIOLATION, SERVICE_RESTART, TRY_AGAIN_LATER = 1008, 1012, 1013


class Socket:
    """An ASGI application; a subclass serves one URL."""

    # Required in addition to the permission to view a machine.
    permission: ClassVar[str] = ""

    async def prepare(self, scope: Scope, caller: Caller) -> Any:
        """Read the parameters, before the handshake is accepted; the result is passed to `serve`."""

    async def serve(self, prepared: Any, hub: Hub, send: FrameSender) -> None:
        """Send frames to one connection, until it is cancelled."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        hub = get_hub()
        connections = get_connections(hub)
        try:
            check_host(scope)
            check_origin(scope)
            connections.check_capacity()
            async with hub.watch():
                caller = await hub.reader.run(authenticate, scope, self.permission)
                connections.check_account(caller)
                prepared = await self.prepare(scope, caller)
                await send({"type": "websocket.accept", "subprotocol": _choose_subprotocol(scope)})
                with connections.track(caller) as revoked:
                    await _run(self.serve(prepared, hub, FrameSender(send)), receive, send, revoked)
        except REFUSED as error:
            await refuse_handshake(error, scope, send)


class FrameSender:
    """Sends frames to one client; raises TimeoutError if the client does not read them."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, text: str) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await self._send({"type": "websocket.send", "text": text})

    async def json(self, **message: Any) -> None:
        await self(orjson.dumps(message).decode())


async def _run(serving: Any, receive: Receive, send: Send, revoked: asyncio.Event) -> None:
    """Serve until the client disconnects, its access is revoked or the server closes; then close the WebSocket."""
    served = asyncio.create_task(serving)
    disconnected, access_ended = asyncio.create_task(_wait_for_disconnect(receive)), asyncio.create_task(revoked.wait())
    tasks = (served, disconnected, access_ended)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not disconnected.done():
            is_closing = get_hub().closing.is_set()
            code = POLICY_VIOLATION if access_ended.done() else SERVICE_RESTART if is_closing else TRY_AGAIN_LATER
            with suppress(Exception):  # the client may have disconnected, or may not read
                async with asyncio.timeout(SEND_TIMEOUT):
                    await send({"type": "websocket.close", "code": code})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the client disconnects; its messages are ignored."""
    message: Message = {"type": ""}
    while message["type"] != "websocket.disconnect":
        message = await receive()


def _choose_subprotocol(scope: Scope) -> str | None:
    offered = scope.get("subprotocols") or []
    return BEARER if offered[:1] == [BEARER] else None


async def refuse_handshake(error: Exception, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": str(error)[:REASON_BYTES]})
        return
    status, headers, body = render_refusal(error)
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
