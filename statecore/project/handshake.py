"""Sockets as uvicorn serves them; one that is turned away in HTTP was answered, and is no error."""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class Answered(WebSocketsSansIOProtocol):
    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        # uvicorn 0.54 forgets it here, and writes an error for each (Kludex/uvicorn#3138).
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True
