"""The database: whether it answers, is new enough, has every migration and trigger, keeps what it confirms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from ..kernel import triggers
from ..kernel.clock import now
from .finding import Finding, fine, warn, wrong

OLDEST_POSTGRESQL = 14
FEW_LEFT = 0.8
SKEW, MUCH_SKEW = 1.0, 10.0


def unreachable() -> Finding | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (Error, ImproperlyConfigured, UnicodeError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return wrong(f"cannot be reached: {said}", "start it, or set DATABASE_URL to where it is")
    return None


def server() -> Iterator[Finding]:
    if connection.vendor == "sqlite":
        yield fine(f"SQLite {_one('SELECT sqlite_version()')}, {connection.settings_dict['NAME']}")
        return
    version = str(_one("SHOW server_version"))
    if int(version.partition(".")[0].split()[0]) < OLDEST_POSTGRESQL:
        yield wrong(f"PostgreSQL {version} is too old", f"use PostgreSQL {OLDEST_POSTGRESQL} or later")
    else:
        yield fine(f"PostgreSQL {version}")
    yield from _promises()
    yield from _connections()


def _promises() -> Iterator[Finding]:
    if _one("SELECT pg_is_in_recovery()"):
        yield wrong("it is a standby, which cannot be written to", "set DATABASE_URL to the primary")
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if _one(f"SHOW {name}") == "off":
            yield warn(f"{name} is off: a power cut loses what was confirmed", f"ALTER SYSTEM SET {name} = on")


def _connections() -> Iterator[Finding]:
    used, most = int(_one("SELECT count(*) FROM pg_stat_activity")), int(_one("SHOW max_connections"))
    if used > FEW_LEFT * most:
        yield warn(
            f"{used} of {most} connections are in use", "raise max_connections, or lower STATECORE_DATABASE_POOL"
        )


def migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    missing = [
        f"{step.app_label}.{step.name}" for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
    ]
    if missing:
        yield wrong(f"{len(missing)} are not applied, the first: {missing[0]}", "manage.py migrate")
    unknown = set(executor.loader.applied_migrations) - set(executor.loader.disk_migrations)
    if unknown:
        newest = ".".join(max(unknown))
        yield warn(f"the database knows {newest}, which this version does not", "run the version that made it")
    if not missing and not unknown:
        yield fine(f"all {len(executor.loader.applied_migrations)} are applied")


def triggers_are_in_place() -> Iterator[Finding]:
    missing = triggers.missing(connection)
    if missing:
        yield wrong(
            f"{len(missing)} are missing or changed, the first: {missing[0]}", "manage.py migrate puts them back"
        )
    else:
        yield fine(f"{len(triggers.installed(connection))} guard the states and the journal")


def clock() -> Iterator[Finding]:
    """Deadlines and leases are judged by the clocks of the processes, which must agree."""
    if connection.vendor == "sqlite":
        yield fine("one machine, one clock")
        return
    there: datetime = _one("SELECT clock_timestamp()")
    skew = abs((now() - there).total_seconds())
    says = f"{skew:.2f} s between this machine and the database"
    if skew >= SKEW:
        yield (wrong if skew >= MUCH_SKEW else warn)(says, "let both machines follow a time server")
    else:
        yield fine(says)


def _one(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]
