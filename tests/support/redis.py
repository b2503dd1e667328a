"""A real Redis for the tests, from a wheel, on a unix socket."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from statecore.project import redis_server
from tests.support.waiting import until


@contextmanager
def running(socket: Path) -> Iterator[str]:
    """Yields the URL of a server that runs until the block ends."""
    url = f"unix://{socket}"
    process = subprocess.Popen(redis_server.command(socket), stdout=subprocess.DEVNULL)
    try:
        until(lambda: _answers(url))
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    with Redis.from_url(url, socket_timeout=5) as redis:
        try:
            return bool(redis.ping())
        except RedisError:
            return False
