"""uvicorn's WebSocket protocol, without the error it logs for a handshake that is rejected with an HTTP response."""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class WebSocketProtocol(WebSocketsSansIOProtocol):
    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        # uvicorn 0.54 does not set this flag and logs an error for each rejection (Kludex/uvicorn#3138).
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True
