"""The checks by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from django.db import DatabaseError, connection
from redis.exceptions import RedisError

from . import data, host, services
from .results import CheckResult, error, get_first_line

Check = Callable[[], Iterator[CheckResult]]

WITHOUT_DATABASE: dict[str, Check] = {
    "python": host.check_python,
    "packages": host.check_packages,
    "home": host.check_home,
    "disk": host.check_disk,
    "settings": host.check_settings,
    "gates": host.check_gate_commands,
    "sandbox": host.check_sandbox,
    "redis": services.check_redis,
    "worker": services.check_workers,
    "beat": services.check_beat,
}
WITH_DATABASE: dict[str, Check] = {
    "database": services.check_database,
    "migrations": services.check_migrations,
    "triggers": services.check_triggers,
    "clock": services.check_clock,
    "executors": services.check_executor_work,
    "operators": data.check_operators,
    "tokens": data.check_tokens,
    "sequencer": data.check_sequencer,
    "journal file": data.check_journal_file,
    "tree": data.check_tree,
    "witnesses": data.check_witnesses,
    "backup": data.check_backups,
    "archive": data.check_archive_files,
    "integrity": data.check_recent_integrity,
    "stuck": data.check_stuck_entities,
    "holds": data.check_holds,
    "webhooks": data.check_webhooks,
    "alerts": data.check_alerts,
}
CHECKS: dict[str, Check] = {**WITHOUT_DATABASE, **WITH_DATABASE}


def run_checks(only: Collection[str] = ()) -> Iterator[CheckResult]:
    """Runs all checks or the named ones, and yields each result when it is known."""
    wanted = set(only) or set(CHECKS)
    yield from _run(name for name in WITHOUT_DATABASE if name in wanted)
    if wanted.isdisjoint(WITH_DATABASE):
        return
    # An unreachable database is reported once, not by every check that needs it.
    if connection_error := services.find_connection_error():
        yield replace(connection_error, check="database")
        return
    yield from _run(name for name in WITH_DATABASE if name in wanted)


def _run(names: Iterator[str]) -> Iterator[CheckResult]:
    for name in names:
        try:
            for result in CHECKS[name]():
                yield replace(result, check=name)
        except (DatabaseError, RedisError, OSError) as exception:
            message = f"the check failed: {get_first_line(exception)}"
            yield replace(error(message, "fix the other problems, then run the check again"), check=name)
            if isinstance(exception, DatabaseError):
                connection.close()
