"""How often one caller may call: counted in Redis for all processes together, a minute at a time.

A process adds up what it lets through and tells Redis now and then, at the latest after a hundredth of the limit: a
generous limit costs almost nothing, and a small one is exact. Where Redis cannot be reached nobody is held up.
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
TOLD_AFTER_SECONDS = 0.5

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Count:
    """One caller's calls in this minute, as far as this process knows."""

    minute: int
    known: int = 0
    untold: int = 0
    told_at: float = 0.0


def check(request: Request, token: Token | None) -> None:
    """A call counts once, however often it is asked about."""
    if getattr(request, "is_counted", False):
        return
    request.is_counted = True
    count(token or request.user)


def count(caller: Any) -> None:
    """One call more of a token, or of a user's session; refuses with the time until the next minute begins."""
    name = f"{'t' if isinstance(caller, Token) else 'u'}{caller.pk}"
    now = time.time()
    if counter.over(name, settings.STATECORE_CALLS_PER_MINUTE, now):
        left = max(1, MINUTE - int(now) % MINUTE)
        raise Throttled(f"more than {settings.STATECORE_CALLS_PER_MINUTE} calls a minute", retry_after=left)


class Counter:
    def __init__(self) -> None:
        self.counts: dict[str, Count] = {}
        self.lock = Lock()

    def over(self, caller: str, limit: int, now: float) -> bool:
        with self.lock:
            count = self._count(caller, int(now) // MINUTE)
            count.untold += 1
            due = count.untold * 100 >= limit or now - count.told_at >= TOLD_AFTER_SECONDS
            untold, count.untold = (count.untold, 0) if due else (0, count.untold)
            count.told_at = now if due else count.told_at
        if due:
            count.known = _told(caller, count, untold)
        return count.known + count.untold > limit

    def _count(self, caller: str, minute: int) -> Count:
        count = self.counts.get(caller)
        if count is None or count.minute != minute:
            if len(self.counts) > 10_000:  # of an earlier minute, most of them
                self.counts = {name: each for name, each in self.counts.items() if each.minute == minute}
            count = self.counts[caller] = Count(minute)
        return count


counter = Counter()


@cache
def _redis(url: str) -> Redis:
    return Redis.from_url(url, socket_timeout=0.25, socket_connect_timeout=0.25)


def _told(caller: str, count: Count, untold: int) -> int:
    key = f"statecore:calls:{caller}:{count.minute}"
    try:
        with _redis(settings.REDIS_URL).pipeline(transaction=False) as pipe:
            pipe.incrby(key, untold)
            pipe.expire(key, 2 * MINUTE)
            return int(pipe.execute()[0])
    except (RedisError, OSError) as error:
        log.debug("calls_not_counted", error=str(error))
        return count.known + untold
