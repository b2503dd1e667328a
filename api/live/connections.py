"""The open streams and WebSockets of a process; those of revoked callers are closed within a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

from django.conf import settings

from statecore.delivery.live import Hub
from statecore.delivery.live.reader import NO_DATABASE
from statecore.kernel.refusals import Unavailable

from ..refusals import TooManyStreams
from .access import Caller, find_revoked

CHECK_SECONDS = 20.0
MAX_CONNECTIONS = 5_000


class Connections:
    """Checks all callers with one query per round, however many connections each of them has."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.by_caller: dict[Caller, set[asyncio.Event]] = {}
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def track(self, caller: Caller) -> Iterator[asyncio.Event]:
        """Yields an event that is set when the caller's access is revoked."""
        revoked = asyncio.Event()
        self.by_caller.setdefault(caller, set()).add(revoked)
        self.count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_access())
        try:
            yield revoked
        finally:
            self.count -= 1
            self.by_caller[caller].discard(revoked)
            if not self.by_caller[caller]:
                del self.by_caller[caller]

    def check_capacity(self) -> None:
        if self.count >= MAX_CONNECTIONS:
            raise Unavailable("too many open streams", retry_after=10)

    def check_account(self, caller: Caller) -> None:
        """Refuses the next connection of an account that has as many as it may, with any of its tokens and sessions."""
        own = sum(len(opened) for each, opened in self.by_caller.items() if each.account == caller.account)
        if own >= settings.STATECORE_STREAMS_PER_ACCOUNT:
            raise TooManyStreams(f"this account has {own} open streams; close one first", limit=own, retry_after=10)

    async def _check_access(self) -> None:
        while self.by_caller:
            await asyncio.sleep(CHECK_SECONDS)
            with suppress(*NO_DATABASE, RuntimeError):  # the hub closes its reader with the last connection
                for caller in await self.hub.reader.run(find_revoked, list(self.by_caller)):
                    for revoked in self.by_caller.get(caller, ()):
                        revoked.set()


_by_hub: WeakKeyDictionary[Hub, Connections] = WeakKeyDictionary()


def get_connections(hub: Hub) -> Connections:
    if hub not in _by_hub:
        _by_hub[hub] = Connections(hub)
    return _by_hub[hub]
