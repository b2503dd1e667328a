"""Many sockets in one process: what each of them is told, and when.

They share the machine with the server, so they do little. A frame is stamped when the last of its bytes has been read,
before anything looks at it. Who stands at the same place is told the same bytes, which are understood once for all.
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
    """When a frame was here, and its events: from this position to that, none left out."""

    at: float
    since: int
    until: int


class Listener(asyncio.Protocol):
    """One socket; `first` is the first thing it is told."""

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
        self._answer()

    def data_received(self, data: bytes) -> None:
        at = time.time()
        self.protocol.receive_data(data)
        for event in self.protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._hear(at, bytes(event.data))
        self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def _hear(self, at: float, text: bytes) -> None:
        self.frames += 1
        if not self.first.done():
            self.first.set_result(orjson.loads(text))
        elif told := _span(text):
            self.receipts.append(Receipt(at, *told))

    def _answer(self) -> None:
        """To pings, above all."""
        for data in self.protocol.data_to_send():
            self.transport.write(data)

    def has_heard(self, position: int) -> bool:
        if self.is_lost:
            raise ConnectionError(f"a socket was closed: {self.protocol.close_rcvd}")
        return bool(self.receipts) and self.receipts[-1].until >= position


@lru_cache(256)
def _span(text: bytes) -> tuple[int, int] | None:
    """The first and the last position a frame tells of; None when it is about something else."""
    positions = [each["position"] for each in orjson.loads(text).get("events", ())]
    if not positions:
        return None
    if positions != [*range(positions[0], positions[-1] + 1)]:
        raise ValueError(f"not one after the other: {positions}")
    return positions[0], positions[-1]


async def opened(port: int, token: str, what: str = "events") -> Listener:
    """A socket that has been told the first thing."""
    address = f"ws://127.0.0.1:{port}/ws/{what}/"
    loop = asyncio.get_running_loop()
    _transport, made = await loop.create_connection(lambda: Listener(address, token), "127.0.0.1", port)
    await asyncio.wait_for(made.first, PATIENCE)
    return made
