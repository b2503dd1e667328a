"""Redis and who works by it: Celery's workers, the executors, and beat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery import current_app
from django.conf import settings
from redis.exceptions import RedisError

from . import sweeps
from .finding import Finding, fine, warn, wrong

ANSWER_WITHIN = 2.0
TOO_MANY = 1_000
QUEUES = ("celery", "gates", "patches")
# A sweep may be late by so much, and three of its rounds: workers are busy now and then.
LATE, ROUNDS = 60.0, 3


def redis() -> Iterator[Finding]:
    try:
        with sweeps.opened() as server:
            facts: Any = server.info()
            waiting = {name: server.llen(name) for name in QUEUES}
    except (RedisError, OSError, ValueError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield wrong(
            f"cannot be reached: {said}", "start it, or set REDIS_URL to where it is; the journal goes on without"
        )
        return
    yield fine(f"Redis {facts['redis_version']}, {facts['used_memory_human']} in use")
    policy = facts.get("maxmemory_policy", "noeviction")
    if facts.get("maxmemory") and policy != "noeviction":
        yield warn(f"it throws away what it has no room for ({policy})", "set maxmemory-policy to noeviction")
    for name, count in waiting.items():
        if count > TOO_MANY:
            yield warn(f"{count} messages wait in {name}", "start more workers, or look why they do not take any")


def workers() -> Iterator[Finding]:
    with sweeps.opened() as server:
        server.ping()  # Celery would try again and again
    found = current_app.control.inspect(timeout=ANSWER_WITHIN).active_queues() or {}
    taken = {queue["name"] for queues in found.values() for queue in queues}
    if "celery" not in taken:
        yield wrong(
            "no worker answers: no time-out is noticed, nothing is retried", "start a worker (statecore-worker@)"
        )
    else:
        yield fine(f"{len(found)} answer: {', '.join(sorted(found))}")
    runs_commands = bool(settings.STATECORE_GATE_COMMANDS or settings.STATECORE_REPOSITORY)
    if runs_commands and "gates" not in taken:
        yield wrong("gates and patches are on, and nobody runs them", "start the executors (statecore-executors@)")


def beat() -> Iterator[Finding]:
    """Seen by its works: the sweeps it asks for and a worker runs."""
    seen = sweeps.last()
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE
    every = {name: entry["schedule"].total_seconds() for name, entry in schedule.items()}
    often = [name for name, seconds in every.items() if seconds <= LATE]
    late = sorted(name for name, ago in seen.items() if name in every and ago > LATE + ROUNDS * every[name])
    if not any(seen.get(name, LATE) < LATE for name in often):
        yield wrong("no sweep was run in the last minute", "start beat (statecore-beat), and a worker if there is none")
    elif late:
        yield warn(f"late: {', '.join(late)}", "look for errors of these tasks in the log of the workers")
    else:
        yield fine(f"the latest sweep began {min(seen.values()):.1f} s ago")
