"""The main loop of the process that sends webhooks: find what is due, take a turn at each, stop on a signal.

Requests run side by side on one event loop, so that a slow receiver delays no other. The database is used from a single
thread beside it. Any number of these processes may run: each webhook has one turn at a time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import httpx
import structlog
from django.conf import settings
from django.db import Error, connection
from prometheus_client import Counter, Histogram

from ...kernel.clock import now
from ...kernel.refusals import Refusal
from ...storage import database_clock
from ...storage.cipher import UnreadableSecret
from . import sender, turn
from .messages import Message, sign
from .sender import Response
from .turn import Turn, TurnLost

log = structlog.get_logger(__name__)
T = TypeVar("T")

POLL_SECONDS = 0.5
ERROR_SECONDS = 2.0
# A turn ends after this time, so that another process can continue and the webhook is read again.
TURN_SECONDS = 30.0
# After a signal, attempts in progress may end.
GRACE_SECONDS = 10.0

deliveries_total = Counter("statecore_webhook_deliveries_total", "Attempts to deliver a webhook", ["outcome"])
delivery_seconds = Histogram("statecore_webhook_delivery_seconds", "Time until a receiver has answered")


class Deliverer:
    def __init__(self) -> None:
        self.database = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database")
        self.turns: dict[str, asyncio.Task[None]] = {}
        self.context = httpx.create_ssl_context(trust_env=True)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        """Run until a signal. After a database error it connects again."""
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        while not stopping.is_set():
            pause = POLL_SECONDS
            try:
                await self.begin_turns()
            except Error as error:
                log.warning("webhooks_lost_database", error=str(error).strip().partition("\n")[0])
                await self._query(_disconnect)
                pause = ERROR_SECONDS
            await _wait(stopping, pause)
        await self.finish()

    async def begin_turns(self) -> None:
        """Begin a turn at every webhook that has something to send, up to the limit."""
        free = settings.STATECORE_WEBHOOK_CONCURRENCY - len(self.turns)
        if free <= 0:
            return
        await self._query(_follow_clock)
        for webhook_id in await self._query(partial(turn.find_due, [*self.turns], free)):
            self.turns[webhook_id] = task = asyncio.create_task(self._take_turn(webhook_id))
            task.add_done_callback(partial(self._forget, webhook_id))

    def _forget(self, webhook_id: str, task: asyncio.Task[None]) -> None:
        self.turns.pop(webhook_id, None)

    async def finish(self) -> None:
        """Wait for the attempts in progress, then give up the rest: they are sent again."""
        if self.turns:
            _done, late = await asyncio.wait([*self.turns.values()], timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._query(_disconnect)
        self.database.shutdown()

    async def _take_turn(self, webhook_id: str) -> None:
        try:
            mine = await self._query(partial(turn.begin, webhook_id))
            if mine is not None:
                await self._deliver(mine)
        except TurnLost:
            log.info("webhook_turn_lost", webhook=webhook_id)
        except Error as error:
            log.warning("webhooks_lost_database", error=str(error).strip().partition("\n")[0])
        except Exception:
            log.exception("webhook_turn_failed", webhook=webhook_id)

    async def _deliver(self, mine: Turn) -> None:
        """Send what is due, until nothing is or the turn is over."""
        until = time.monotonic() + TURN_SECONDS
        async with sender.open_connections(self.context) as connections:
            try:
                while time.monotonic() < until:
                    message = await self._query(mine.next_message)
                    if message is None:
                        break
                    headers = sign(message, now(), mine.webhook.read_secrets(now()))
                    response = await sender.send(connections, mine.webhook.url, message.body, headers)
                    _count(mine, message, response)
                    await self._query(partial(mine.record, message, response))
            except (UnreadableSecret, Refusal) as error:
                await self._query(partial(mine.disable, str(error)))
            finally:
                await self._query(mine.end)

    async def _query(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.database, function)


async def _wait(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return


def _follow_clock() -> None:
    database_clock.follow(connection)


def _count(mine: Turn, message: Message, response: Response) -> None:
    """The URL is never logged: its path may be a secret."""
    deliveries_total.labels("delivered" if response.is_success else "failed").inc()
    delivery_seconds.observe(response.duration_ms / 1_000)
    if not response.is_success:
        log.warning(
            "webhook_not_delivered", webhook=mine.webhook.pk, host=mine.webhook.host, message=message.id,
            attempt=message.attempt, status=response.status, error=response.error,
        )  # fmt: skip


def _disconnect() -> None:
    """Close the connection of the thread that runs this."""
    connection.close()
