"""Sends one message over HTTP: only to an address that was checked, without redirects, within a time limit.

The address is checked after resolving the name, and the connection is made to that address, so a name that resolves
differently the next time leads nowhere else.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

from ... import __version__
from ...records import webhook_address
from ...records.webhook import ERROR_LENGTH, EXCERPT_LENGTH
from .messages import CONTENT_TYPE

CONNECT_SECONDS = 5.0
GONE = 410
MAX_ADDRESSES = 4  # of one name that are tried


class AddressRefused(Exception):
    """The name leads to no address that webhooks may be sent to."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a receiver answered: a status with the beginning of the body, or an error without a status."""

    duration_ms: int
    status: int | None = None
    excerpt: str = ""
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        return self.status == GONE

    def describe(self) -> str:
        return self.error or f"the receiver answered {self.status}"


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Resolves a name, checks its addresses, and connects to one of them."""

    def __init__(self) -> None:
        self.inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in (await _resolve(host, port))[:MAX_ADDRESSES]:
            try:
                return await self.inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name that may be connected to; raises AddressRefused if there is none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
    except OSError:
        raise httpcore.ConnectError("its name cannot be resolved") from None
    addresses = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    allowed = [each for each in addresses if webhook_address.is_allowed(ip_address(each))]
    if not allowed:
        raise AddressRefused(f"{host} has the address {next(iter(addresses), '?')}, {webhook_address.why_refused()}")
    return allowed


def open_connections(context: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
    """Return connections for the messages of one turn. They use no proxy and follow no redirect."""
    return httpcore.AsyncConnectionPool(
        ssl_context=context, network_backend=CheckedNetwork(), max_connections=1, retries=0
    )


async def send(
    connections: httpcore.AsyncConnectionPool, url: str, body: bytes, headers: Mapping[str, str]
) -> Response:
    """Send a message; never raises for what the network or the receiver does."""
    started, limit = time.monotonic(), float(settings.STATECORE_WEBHOOK_TIMEOUT_SECONDS)
    received = _Received()
    error = ""
    try:
        async with asyncio.timeout(limit):
            await received.read(connections, url, body, headers, limit)
    except TimeoutError:
        error = f"no complete response within {limit:g} s"
    except httpcore.TimeoutException:
        error = f"no connection within {min(CONNECT_SECONDS, limit):g} s"
    except AddressRefused as refused:
        error = str(refused)
    except httpcore.ConnectError as failure:
        error = f"cannot connect: {failure}"
    except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError) as failure:
        error = f"the connection failed: {type(failure).__name__}"
    # A status counts although the body did not follow: the receiver has answered.
    error = "" if received.status else error or "no response"
    duration = round(1_000 * (time.monotonic() - started))
    return Response(duration, received.status, received.excerpt, error[:ERROR_LENGTH])


class _Received:
    """What has arrived of a response."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.bytes = b""

    @property
    def excerpt(self) -> str:
        return self.bytes[:EXCERPT_LENGTH].decode(errors="replace").replace("\0", "�")

    async def read(
        self,
        connections: httpcore.AsyncConnectionPool,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        limit: float,
    ) -> None:
        """Read the status and the beginning of the body, and drop the rest with the connection."""
        limits = {"connect": min(CONNECT_SECONDS, limit), "read": limit, "write": limit, "pool": limit}
        sent = {"Host": urlsplit(url).netloc, "User-Agent": f"statecore/{__version__}", "Accept-Encoding": "identity",
                "Content-Type": CONTENT_TYPE, "Content-Length": str(len(body)), **headers}  # fmt: skip
        async with connections.stream(
            "POST", _build_url(url), headers=list(sent.items()), content=body, extensions={"timeout": limits}
        ) as response:
            self.status = response.status
            async for chunk in response.aiter_stream():
                self.bytes += chunk
                if len(self.bytes) >= EXCERPT_LENGTH:
                    return


def _build_url(url: str) -> httpcore.URL:
    """Pass on the parts as they were checked, so that no second parser can read another host in the text."""
    target, parts = webhook_address.parse_target(url), urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=path)
