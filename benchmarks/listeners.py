"""Many WebSocket clients in one process that record what each receives and when.

They share the machine with the server, so they do little work. A frame is timestamped when its last byte was read,
before parsing. Connections at the same position receive identical bytes, which are parsed once.
"""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

PATIENCE = 60.0


class Receipt(NamedTuple):
    """The time a frame arrived, and the first and last position of its consecutive events."""

    at: float
    since: int
    until: int


class Listener(asyncio.Protocol):
    """One socket. `first` resolves to its first message."""

    transport: asyncio.Transport

    def __init__(self, address: str, token: str) -> None:
        self.protocol = ClientProtocol(parse_uri(address), max_size=None)
        self.token = token
        self.first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.frames = 0
        self.receipts: list[Receipt] = []
        self.is_lost = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        request = self.protocol.connect()
        request.headers["Authorization"] = f"Bearer {self.token}"
        self.protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        at = time.time()
        self.protocol.receive_data(data)
        for event in self.protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._record(at, bytes(event.data))
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def _record(self, at: float, text: bytes) -> None:
        self.frames += 1
        if not self.first.done():
            self.first.set_result(orjson.loads(text))
        elif span := _span(text):
            self.receipts.append(Receipt(at, *span))

    def _flush(self) -> None:
        """Sends pending data, mostly replies to pings."""
        for data in self.protocol.data_to_send():
            self.transport.write(data)

    def has_received(self, position: int) -> bool:
        if self.is_lost:
            raise ConnectionError(f"a socket was closed: {self.protocol.close_rcvd}")
        return bool(self.receipts) and self.receipts[-1].until >= position


@lru_cache(256)
def _span(text: bytes) -> tuple[int, int] | None:
    """Returns the first and last position of a frame, or None for frames without events."""
    positions = [each["position"] for each in orjson.loads(text).get("events", ())]
    if not positions:
        return None
    if positions != [*range(positions[0], positions[-1] + 1)]:
        raise ValueError(f"positions are not consecutive: {positions}")
    return positions[0], positions[-1]


async def connect(port: int, token: str, what: str = "events") -> Listener:
    """Opens a socket and waits for its first message."""
    address = f"ws://127.0.0.1:{port}/ws/{what}/"
    loop = asyncio.get_running_loop()
    _transport, listener = await loop.create_connection(lambda: Listener(address, token), "127.0.0.1", port)
    await asyncio.wait_for(listener.first, PATIENCE)
    return listener
