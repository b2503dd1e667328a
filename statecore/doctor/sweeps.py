"""When each sweep began last, kept in Redis by whoever runs it: that is how one knows that beat is alive."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

KEY = "statecore:sweeps"
PATIENCE = 5.0


@cache
def _redis() -> Redis:
    return opened()


def opened() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE)


def note(name: str) -> None:
    """Nothing waits for it and nothing fails by it."""
    if name in settings.CELERY_BEAT_SCHEDULE:
        with suppress(RedisError):
            _redis().hset(KEY, name, time.time())


def last() -> dict[str, float]:
    """Seconds since each began."""
    with opened() as redis:
        at = time.time()
        return {name.decode(): max(0.0, at - float(told)) for name, told in dict(redis.hgetall(KEY)).items()}
