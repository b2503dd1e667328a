"""Cheap HTTP clients: persistent sockets with prepared requests, in one process."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence

Address = tuple[str, int]
Request = tuple[str, bytes]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def post(address: Address, token: str, requests: Sequence[Sequence[Request]]) -> tuple[float, list[float]]:
    """Sends each list of requests on its own connection. Returns the total seconds and those of each request."""
    return asyncio.run(_all(address, token, requests))


async def _all(address: Address, token: str, requests: Sequence[Sequence[Request]]) -> tuple[float, list[float]]:
    streams = [await asyncio.open_connection(*address) for _ in requests]
    start = time.perf_counter()
    took = await asyncio.gather(*(_one(*stream, token, given) for stream, given in zip(streams, requests, strict=True)))
    seconds = time.perf_counter() - start
    for _reader, writer in streams:
        writer.close()
    return seconds, [each for client in took for each in client]


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, requests: Sequence[Request]
) -> list[float]:
    took = []
    for path, body in requests:
        start = time.perf_counter()
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        answer = await reader.readexactly(length)
        if not head.partition(" ")[2].startswith("2"):
            raise RuntimeError(answer.decode())
        took.append(time.perf_counter() - start)
    return took
