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
from django.db import connection

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
        limit = "ALTER ROLE {name}_web CONNECTION LIMIT "
        return self.changed(f"{limit} 0", f"{limit} -1")

    def too_slow(self) -> Any:
        """Every statement takes longer than the limit."""
        setting = "ALTER ROLE {name}_web SET statement_timeout = "
        return self.changed(f"{setting} '1ms'", f"{setting} 0")

    @contextmanager
    def locked(self) -> Iterator[None]:
        with psycopg.connect(self.url) as session:
            session.execute("LOCK TABLE statecore_event IN ACCESS EXCLUSIVE MODE")
            yield

    @contextmanager
    def without_rights(self) -> Iterator[None]:
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute(f"REVOKE INSERT, UPDATE ON ALL TABLES IN SCHEMA public FROM {self.name}_web".encode())
            try:
                yield
            finally:
                roles.grant_rights(connection)


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
    shows, meet = installation.shows, installation.meet
    with installation.stopped("beat", "webhooks"):
        meet("read-only", database.read_only, lambda: shows("writes", "read-only"))
        meet("no-connections", database.out_of_connections, lambda: shows("database"))
        meet("no-rights", database.without_rights, lambda: shows("writes", "lacks a right"))
        meet("locked", database.locked, lambda: shows("sequencer"))
        until(lambda: shows("processes", "beat") and shows("processes", "webhooks"), 30)


def check_broker_faults(installation: Installation) -> None:
    redis, shows, meet = installation.redis, installation.shows, installation.meet
    meet("redis-full", lambda: full(installation), lambda: shows("broker"))
    meet("redis-hung", lambda: installation.stopped("valkey-server"), lambda: shows("broker"))
    with installation.working("redis-flushed"):
        redis.flushall()
        until(lambda: b"sweep_tasks" in redis.hgetall("statecore:sweeps"), 30)
    with installation.working("redis-evicting"), full(installation, "allkeys-random"):
        until(lambda: redis.info()["evicted_keys"] > 0, 30)
    redis.delete("statecore:sweeps")
    until(lambda: b"sweep_tasks" in redis.hgetall("statecore:sweeps"), 30)


def test_faults_of_services_are_named_and_nothing_is_lost_or_doubled(
    tmp_path: Path, django_db_blocker: Any, django_db_setup: None
) -> None:
    site = Site(tmp_path, migrated=True)
    owner = site.variables["DATABASE_URL"]
    database = Database(owner)
    urls = test_roles.create_in(owner)
    with django_db_blocker.unblock(), pointed_at(owner):
        roles.grant_rights(connection)
        site.variables["DATABASE_URL"] = urls[roles.WEB]
        with running(site, tmp_path) as installation:
            with installation.working("before"):
                pass
            check_database_faults(installation, database)
            check_broker_faults(installation)
            installation.expect_everything_done_once()
