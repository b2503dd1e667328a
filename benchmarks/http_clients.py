"""Cheap HTTP clients: persistent sockets with prepared requests, in one process."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from subprocess import Popen

PATIENCE = 60.0
Address = tuple[str, int]
Request = tuple[str, bytes]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(address: Address, process: Popen[bytes]) -> None:
    """Waits until a server listens; raises RuntimeError if it does not within a minute, or ends."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(address, 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not answer")


def post(address: Address, token: str, requests: Sequence[Sequence[Request]]) -> tuple[float, list[float]]:
    """Sends each list of requests on its own connection. Returns the total seconds and those of each request."""
    return asyncio.run(_all(address, token, requests))


async def _all(address: Address, token: str, requests: Sequence[Sequence[Request]]) -> tuple[float, list[float]]:
    connections = [await Connection.open(address, token) for _ in requests]
    start = time.perf_counter()
    took = await asyncio.gather(*(_one(*pair) for pair in zip(connections, requests, strict=True)))
    seconds = time.perf_counter() - start
    for connection in connections:
        connection.close()
    return seconds, [each for client in took for each in client]


async def _one(connection: Connection, requests: Sequence[Request]) -> list[float]:
    took = []
    for path, body in requests:
        start = time.perf_counter()
        await connection.post(path, body)
        took.append(time.perf_counter() - start)
    return took


class Connection:
    """A persistent connection, which serves one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.reader, self.writer, self.head = reader, writer, head

    @classmethod
    async def open(cls, address: Address, token: str) -> Connection:
        head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        return cls(*await asyncio.open_connection(*address), head)

    async def post(self, path: str, body: bytes, headers: str = "") -> bytes:
        """Returns the body of the response; raises RuntimeError for a refusal."""
        head = f"POST {path} HTTP/1.1\r\n{self.head}{headers}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        status = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(status.partition("content-length:")[2].partition("\r\n")[0])
        answer = await self.reader.readexactly(length)
        if not status.partition(" ")[2].startswith("2"):
            raise RuntimeError(answer.decode())
        return answer

    def close(self) -> None:
        self.writer.close()
