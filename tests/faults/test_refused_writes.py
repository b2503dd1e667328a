"""A database that is read-only, full or locked: the reason is reported, nothing is lost, and it needs no repair."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client

from statecore.dashboard.sessions import ACTIVITY
from statecore.journal import Event
from statecore.machines.run import Run
from statecore.operations.process_reporter import ProcessReporter
from statecore.records import Token
from statecore.storage import database_errors, database_faults
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = {"text": "x" * 200_000}  # needs new pages
Fault = Callable[[], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def _no_fault_before() -> Iterator[None]:
    database_faults.forget()
    yield
    database_faults.forget()


def execute(*statements: str) -> Any:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None


@contextmanager
def read_only() -> Iterator[None]:
    statement = {
        "sqlite": "PRAGMA query_only = {}",
        "postgresql": "SET default_transaction_read_only = {}",
    }[connection.vendor]
    execute(statement.format("on"))
    try:
        yield
    finally:
        execute(statement.format("off"))


@contextmanager
def full() -> Iterator[None]:
    """SQLite may not grow; PostgreSQL answers what it does when it cannot extend a table."""
    if connection.vendor == "sqlite":
        (free,), (size,) = execute("PRAGMA freelist_count"), execute("PRAGMA page_size")
        execute(f"CREATE TABLE filler AS SELECT zeroblob({free * size}) AS free_pages")
        execute(f"PRAGMA max_page_count = {execute('PRAGMA page_count')[0]}")
        yield
        execute("PRAGMA max_page_count = 1073741823", "DROP TABLE filler")
        return
    with refusing_to_insert("53100"):
        yield


@contextmanager
def refusing_to_insert(sqlstate: str) -> Iterator[None]:
    raises = f"BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{sqlstate}'; END"
    table = Run._meta.db_table
    execute(
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {raises} $$",
        f"CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    try:
        yield
    finally:
        execute(f"DROP TRIGGER refuse ON {table}", "DROP FUNCTION refuse()")


@contextmanager
def locked() -> Iterator[None]:
    """Another program, such as a copy that takes long, holds the write lock of SQLite."""
    execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()
        execute("PRAGMA busy_timeout = 20000")


FAULTS = [
    pytest.param(read_only, "database_read_only", id="read-only"),
    pytest.param(full, "database_full", id="full"),
    pytest.param(locked, "database_busy", id="locked", marks=pytest.mark.sqlite),
]


@pytest.mark.parametrize(("fault", "code"), FAULTS)
def test_a_refused_change_has_the_reason_and_can_be_repeated(fault: Fault, code: str, redis_server: str) -> None:
    caller, anyone = Caller("operate"), Client()
    create: dict[str, Any] = {
        "path": "runs/",
        "body": {"phase": world.phase().pk, "metadata": LARGE},
        "Idempotency-Key": "once",
    }
    with fault():
        refused = caller.post(**create)
        problem = expect_refusal(refused, 503, code)
        assert int(refused["Retry-After"]) == problem["retry_after"]
        assert expect_ok(caller.get("runs/"))["results"] == []

        health = anyone.get("/readyz").json()
        assert (health["status"], health["failed"]) == ("degraded", ["writes"])
        assert problem["detail"] in health["reasons"]["writes"]
        assert anyone.get("/readyz?check=database&check=migrations").status_code == 200

    expect_ok(caller.post(**create), 201)
    expect_ok(caller.post(**create), 201)
    assert (Run.objects.count(), Event.objects.filter(entity_type="run").count()) == (1, 1)


@pytest.mark.parametrize("fault", [read_only, pytest.param(locked, marks=pytest.mark.sqlite)])
def test_reading_with_a_token_or_in_the_console_needs_no_write(fault: Fault, admin_client: Client) -> None:
    """The use of a token or session is noted once a minute, and later if the database refuses that."""
    caller = Caller("read")
    with fault():
        if connection.vendor == "sqlite":
            execute("PRAGMA busy_timeout = 20000")  # as in production
        started = time.monotonic()
        expect_ok(caller.get("runs/"))
        assert admin_client.get("/alerts/").status_code == 200
        assert time.monotonic() - started < 15

    assert Token.objects.get(pk=caller.token.pk).last_used_at is None
    expect_ok(caller.get("runs/"))
    assert admin_client.get("/alerts/").status_code == 200
    assert Token.objects.get(pk=caller.token.pk).last_used_at is not None
    assert ACTIVITY in admin_client.session


def test_the_console_shows_the_reason(admin_user: User) -> None:
    password = {"username": admin_user.username, "password": "password"}
    visitor = Client(raise_request_exception=False)
    with read_only():
        page = visitor.post("/login/", password)
        part = visitor.post("/login/", password, headers={"HX-Request": "true"})

    assert (page.status_code, part.status_code) == (503, 503)
    assert "The database is read-only" in page.content.decode()
    assert part["Content-Type"].startswith("text/plain")
    assert part.content.decode().startswith("The database is read-only")


def test_a_process_that_cannot_report_makes_the_reason_known(client: Client, redis_server: str) -> None:
    assert client.get("/readyz").status_code == 200
    with read_only():
        ProcessReporter("rest").report()
        assert client.get("/readyz").json()["failed"] == ["writes"]


@pytest.mark.postgres
def test_a_server_without_a_free_connection_is_busy() -> None:
    execute("CREATE ROLE tests_limited LOGIN CONNECTION LIMIT 0")
    limited = connection.copy()
    limited.settings_dict = {**limited.settings_dict, "USER": "tests_limited"}
    try:
        with pytest.raises(OperationalError) as raised:
            limited.ensure_connection()
    finally:
        execute("DROP ROLE tests_limited")

    refusal = database_errors.to_refusal(raised.value)
    assert refusal is not None
    assert (refusal.code, refusal.facts["retry_after"]) == ("database_busy", 5)
