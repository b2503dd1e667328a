"""Checks of the services that an installation uses: Redis, Celery workers, Celery beat and the database server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from redis import Redis
from redis.exceptions import RedisError

from ...records import executor_work
from ...storage import database_clock, roles, trigger_check, triggers
from .results import CheckResult, error, get_first_line, ok, warning

REDIS_TIMEOUT = 5.0
WORKER_TIMEOUT = 2.0
QUEUES = ("celery", "gates", "patches")
LONG_QUEUE = 1_000
# Hold the time at which each sweep last started, and how many seconds it took.
SWEEPS_KEY, DURATIONS_KEY = "statecore:sweeps", "statecore:sweep-durations"
# Written to find out whether Redis takes messages.
PROBE_KEY = "statecore:probe"
# A sweep is late after this many seconds plus this many of its intervals: workers are busy now and then.
LATE_SECONDS, LATE_INTERVALS = 60.0, 3
OLDEST_POSTGRESQL = 14
MANY_CONNECTIONS = 0.8
CLOCK_SKEW, LARGE_CLOCK_SKEW = 1.0, 10.0


def open_redis() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_connect_timeout=REDIS_TIMEOUT, socket_timeout=REDIS_TIMEOUT)


@cache
def _get_redis() -> Redis:
    return open_redis()


def record_sweep(name: str) -> None:
    """Records that a sweep starts now. Failures are ignored, so that they never stop the sweep."""
    if name in settings.CELERY_BEAT_SCHEDULE:
        with suppress(RedisError):
            _get_redis().hset(SWEEPS_KEY, name, time.time())


def record_sweep_end(name: str, seconds: float) -> None:
    if name in settings.CELERY_BEAT_SCHEDULE:
        with suppress(RedisError):
            _get_redis().hset(DURATIONS_KEY, name, seconds)


def get_sweep_ages() -> dict[str, float]:
    """Returns the seconds since each sweep last started."""
    current = time.time()
    return {name: max(0.0, current - at) for name, at in _read_numbers(SWEEPS_KEY).items()}


def get_sweep_durations() -> dict[str, float]:
    """Returns how many seconds the last complete run of each sweep took."""
    return _read_numbers(DURATIONS_KEY)


def _read_numbers(key: str) -> dict[str, float]:
    with open_redis() as redis:
        found: Any = redis.hgetall(key)
        return {name.decode(): float(value) for name, value in found.items()}


def get_intervals() -> dict[str, float]:
    """Returns the seconds between two starts of each sweep."""
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE
    return {name: entry["schedule"].total_seconds() for name, entry in schedule.items()}


def find_late_sweeps(ages: dict[str, float]) -> dict[str, float]:
    """Returns the ages of the sweeps that should have started since, by name."""
    late_after = {name: LATE_SECONDS + LATE_INTERVALS * seconds for name, seconds in get_intervals().items()}
    return {name: age for name, age in sorted(ages.items()) if name in late_after and age > late_after[name]}


def get_queue_lengths(queues: Iterable[str] = QUEUES) -> dict[str, int]:
    """Returns the number of messages that wait in each queue."""
    with open_redis() as redis:
        return {name: int(redis.llen(name)) for name in queues}


def check_redis() -> Iterator[CheckResult]:
    try:
        with open_redis() as redis:
            info: Any = redis.info()
        lengths = get_queue_lengths()
    except (RedisError, OSError, ValueError) as exception:
        yield error(
            f"Redis is unreachable: {get_first_line(exception)}",
            "start Redis or correct REDIS_URL; the journal works without it",
        )
        return
    yield ok(f"Redis {info['redis_version']}, {info['used_memory_human']} in use")
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        yield warning(f"Redis evicts keys when its memory is full ({policy})", "set maxmemory-policy to noeviction")
    for name, length in lengths.items():
        if length > LONG_QUEUE:
            yield warning(f"{length} messages wait in {name}", "start more workers, or see their log for errors")


def check_workers() -> Iterator[CheckResult]:
    with open_redis() as redis:
        redis.ping()  # fails at once, while Celery would retry
    from statecore.task_queue import app  # Celery, which few commands need

    found = app.control.inspect(timeout=WORKER_TIMEOUT).active_queues() or {}
    consumed = {queue["name"] for queues in found.values() for queue in queues}
    if "celery" not in consumed:
        yield error("no worker responds: there are no timeouts and no retries", "start a worker (statecore-worker@)")
    else:
        yield ok(f"{len(found)} respond: {', '.join(sorted(found))}")
    runs_commands = bool(settings.STATECORE_GATE_COMMANDS or settings.STATECORE_REPOSITORY)
    if runs_commands and "gates" not in consumed:
        yield error(
            "gates and patches are enabled, but no executor responds", "start the executors (statecore-executors@)"
        )


def check_executor_work() -> Iterator[CheckResult]:
    """Compares the work that executors have declared with the settings of this process."""
    unknown = executor_work.list_unknown()
    for each in unknown:
        yield error(
            f"executors have declared {each}, but {each.setting} is not set here",
            f"set {each.setting} as for the executors, or run manage.py executors --off if none run any more",
        )
    if not unknown:
        yield ok("this process knows of all work that executors do")


def check_beat() -> Iterator[CheckResult]:
    """Beat cannot be queried. The sweeps that it schedules show that it runs."""
    ages = get_sweep_ages()
    frequent = [name for name, seconds in get_intervals().items() if seconds <= LATE_SECONDS]
    late = find_late_sweeps(ages)
    if not any(ages.get(name, LATE_SECONDS) < LATE_SECONDS for name in frequent):
        yield error("no sweep has run in the last minute", "start beat (statecore-beat), and a worker if none runs")
    elif late:
        yield warning(f"late: {', '.join(late)}", "see the workers' log for errors of these tasks")
    else:
        yield ok(f"the latest sweep started {min(ages.values()):.1f} s ago")


def find_connection_error() -> CheckResult | None:
    try:
        _select_value("SELECT 1")
    except (Error, ImproperlyConfigured, UnicodeError) as exception:
        return error(
            f"the database is unreachable: {get_first_line(exception)}", "start the database or correct DATABASE_URL"
        )
    return None


def check_database() -> Iterator[CheckResult]:
    if connection.vendor == "sqlite":
        yield ok(f"SQLite {_select_value('SELECT sqlite_version()')}, {connection.settings_dict['NAME']}")
        return
    version = str(_select_value("SHOW server_version"))
    if int(version.partition(".")[0].split()[0]) < OLDEST_POSTGRESQL:
        yield error(f"PostgreSQL {version} is too old", f"use PostgreSQL {OLDEST_POSTGRESQL} or later")
    else:
        yield ok(f"PostgreSQL {version}")
    if _select_value("SELECT pg_is_in_recovery()"):
        yield error("the server is a read-only standby", "set DATABASE_URL to the primary")
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if _select_value(f"SHOW {name}") == "off":
            yield warning(f"{name} is off: a power failure can lose committed changes", f"ALTER SYSTEM SET {name} = on")
    used = int(_select_value("SELECT count(*) FROM pg_stat_activity"))
    limit = int(_select_value("SHOW max_connections"))
    if used > MANY_CONNECTIONS * limit:
        yield warning(
            f"{used} of {limit} connections are in use", "raise max_connections, or lower STATECORE_DATABASE_POOL"
        )


def check_migrations() -> Iterator[CheckResult]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    missing = [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
    if missing:
        yield error(f"{len(missing)} are not applied, the first: {missing[0]}", "manage.py migrate")
    unknown = set(executor.loader.applied_migrations) - set(executor.loader.disk_migrations)
    if unknown:
        newest = ".".join(max(unknown))
        yield warning(
            f"the database has {newest}, which this version lacks", "run the version that applied this migration"
        )
    if not missing and not unknown:
        yield ok(f"all {len(executor.loader.applied_migrations)} are applied")


def check_triggers() -> Iterator[CheckResult]:
    problems = trigger_check.find_problems(connection)
    if problems:
        yield error(
            f"{len(problems)} are not as defined, the first: {problems[0]}",
            "manage.py integrity lists them; manage.py migrate installs the triggers",
        )
    else:
        yield ok(f"{len(triggers.installed(connection))} protect the states and the journal")
    if connection.vendor == "postgresql":
        role = _select_value("SELECT current_user")
        can_remove = "owns the tables and could remove the triggers; manage.py roles --sql writes roles that cannot"
        yield ok(f"the role {role} {can_remove if roles.can_remove_guards(connection) else 'cannot remove them'}")


def check_clock() -> Iterator[CheckResult]:
    """Processes correct their clocks by the database's; outside Statecore, in logs for example, they still differ."""
    skew = abs(time.time() - database_clock.read_seconds(connection))
    message = f"{skew:.2f} s difference between this host and the database"
    if skew >= CLOCK_SKEW:
        yield (error if skew >= LARGE_CLOCK_SKEW else warning)(
            f"{message}, which leases and deadlines allow for", "synchronize both hosts with a time server"
        )
    else:
        yield ok(message)


def _select_value(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]
