"""Faults of PostgreSQL and Redis, and processes that hang: named within 30 s, nothing lost, nothing done twice.

One installation meets all of them, because it takes longer to start than to fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from statecore.storage import roles
from tests.faults.installation import Installation, running
from tests.project.test_supervisor import Site
from tests.support import roles as test_roles
from tests.support.databases import pointed_at
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.slow]


class Database:
    """The database of the installation, as the administrator of its server changes it."""

    def __init__(self, url: str) -> None:
        self.url, self.name = url, urlsplit(url).path.removeprefix("/")

    def execute(self, *statements: str) -> None:
        with psycopg.connect(os.environ["STATECORE_TEST_POSTGRES"], autocommit=True) as session:
            for statement in statements:
                session.execute(statement.format(name=self.name).encode())

    @contextmanager
    def changed(self, there: str, back: str) -> Iterator[None]:
        """Ends all sessions after the change, because it concerns new ones only."""
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        self.execute(there, end)
        try:
            yield
        finally:
            self.execute(back, end)

    def read_only(self) -> Any:
        setting = "ALTER DATABASE {name} SET default_transaction_read_only = "
        return self.changed(f"{setting} on", f"{setting} off")

    def out_of_connections(self) -> Any:
        limit = "ALTER ROLE {name}_owner CONNECTION LIMIT "
        return self.changed(f"{limit} 0", f"{limit} -1")

    @contextmanager
    def locked(self) -> Iterator[None]:
        with psycopg.connect(self.url) as session:
            session.execute("LOCK TABLE statecore_event IN ACCESS EXCLUSIVE MODE")
            yield

    @contextmanager
    def without_rights(self) -> Iterator[None]:
        with psycopg.connect(self.url, autocommit=True) as session:
            tables = "INSERT, UPDATE ON ALL TABLES IN SCHEMA public"
            session.execute(f"REVOKE {tables} FROM {self.name}_owner".encode())
            try:
                yield
            finally:
                session.execute(f"GRANT {tables} TO {self.name}_owner".encode())


@contextmanager
def full(installation: Installation, policy: str = "noeviction") -> Iterator[None]:
    redis = installation.redis
    redis.config_set("maxmemory-policy", policy)
    redis.config_set("maxmemory", "1mb")
    try:
        yield
    finally:
        redis.config_set("maxmemory", "0")
        redis.config_set("maxmemory-policy", "noeviction")


def check_database_faults(installation: Installation, database: Database) -> None:
    meet = installation.meet
    with installation.stopped("beat", "webhooks"):
        # Before the supervisor starts them again.
        installation.await_shown("processes", "beat")
        installation.await_shown("processes", "webhooks")
        meet("read-only", database.read_only, "writes", "read-only")
        meet("no-connections", database.out_of_connections, "database")
        meet("no-rights", database.without_rights, "writes", "lacks a right")
        meet("locked", database.locked, "sequencer")


def check_broker_faults(installation: Installation) -> None:
    redis = installation.redis
    installation.meet("redis-full", lambda: full(installation), "broker")
    installation.meet("redis-hung", lambda: installation.stopped("valkey-server"), "broker")
    with full(installation, "allkeys-random"), installation.working("redis-evicting"):
        pass
    with installation.working("redis-flushed"):
        redis.flushall()
    until(lambda: b"sweep_tasks" in redis.hgetall("statecore:sweeps"), 120)


def test_faults_of_services_are_named_and_nothing_is_lost_or_doubled(
    tmp_path: Path, django_db_blocker: Any, django_db_setup: None
) -> None:
    site = Site(tmp_path, migrated=True)
    database = Database(site.variables["DATABASE_URL"])
    # The supervisor migrates, so its processes have the role of the owner, here with the limit of the others.
    site.variables["DATABASE_URL"] = test_roles.create_in(database.url)[roles.OWNER]
    database.execute(f"ALTER ROLE {{name}}_owner SET lock_timeout = '{roles.LOCK_SECONDS}s'")
    with django_db_blocker.unblock(), pointed_at(database.url), running(site, tmp_path) as installation:
        check_database_faults(installation, database)
        check_broker_faults(installation)
        installation.expect_everything_done_once()
