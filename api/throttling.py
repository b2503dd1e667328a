"""The limit of calls per minute and caller, counted in Redis for all processes.

A process counts calls in memory. It adds them to the count in Redis when half a second has passed or when they are a
hundredth of the limit, so a high limit rarely costs a call to Redis and a low one is exact. Without Redis, each process
applies the limit to the calls that it serves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import structlog
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from statecore.records.token import Token

from .refusals import Throttled
from .request import Request

MINUTE = 60
FLUSH_SECONDS = 0.5

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Count:
    """The calls of one caller in one minute, as known to this process."""

    minute: int
    known: int = 0
    unflushed: int = 0
    flushed_at: float = 0.0


def check(request: Request, token: Token | None) -> None:
    """Count a request once, however often this is called; raises Throttled above the limit."""
    if getattr(request, "is_counted", False):
        return
    request.is_counted = True
    count(token or request.user)


def count(caller: Any) -> None:
    """Count one call of a token or user; raises Throttled, with the seconds until the next minute, above the limit."""
    name = f"{'t' if isinstance(caller, Token) else 'u'}{caller.pk}"
    now = time.time()
    if counter.exceeds(name, settings.STATECORE_CALLS_PER_MINUTE, now):
        left = max(1, MINUTE - int(now) % MINUTE)
        raise Throttled(f"more than {settings.STATECORE_CALLS_PER_MINUTE} calls per minute", retry_after=left)


class Counter:
    def __init__(self) -> None:
        self.counts: dict[str, Count] = {}
        self.lock = Lock()

    def exceeds(self, caller: str, limit: int, now: float) -> bool:
        minute = int(now) // MINUTE
        with self.lock:
            count = self.counts.get(caller)
            if count is None or count.minute != minute:
                if len(self.counts) > 10_000:  # mostly counts of earlier minutes
                    self.counts = {name: each for name, each in self.counts.items() if each.minute == minute}
                count = self.counts[caller] = Count(minute)
            count.unflushed += 1
            due = count.unflushed * 100 >= limit or now - count.flushed_at >= FLUSH_SECONDS
            unflushed, count.unflushed = (count.unflushed, 0) if due else (0, count.unflushed)
            count.flushed_at = now if due else count.flushed_at
        if due:
            count.known = _flush(caller, count, unflushed)
        return count.known + count.unflushed > limit


counter = Counter()


@cache
def _connect_redis(url: str) -> Redis:
    return Redis.from_url(url, socket_timeout=0.25, socket_connect_timeout=0.25)


def _flush(caller: str, count: Count, calls: int) -> int:
    """Add calls to the count in Redis and return the count of all processes."""
    key = f"statecore:calls:{caller}:{count.minute}"
    try:
        with _connect_redis(settings.REDIS_URL).pipeline(transaction=False) as pipe:
            pipe.incrby(key, calls)
            pipe.expire(key, 2 * MINUTE)
            return int(pipe.execute()[0])
    except (RedisError, OSError) as error:
        log.debug("calls_not_counted", error=str(error))
        return count.known + calls
