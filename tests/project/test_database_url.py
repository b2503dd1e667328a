"""DATABASE_URL."""

import pytest

from statecore.project import database_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///here.db", "here.db"),
        ("sqlite:////var/there.db", "/var/there.db"),
        ("sqlite:////var/a%20b.db", "/var/a b.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url: str, path: str) -> None:
    parsed = database_url.parse(url)

    assert parsed["ENGINE"] == "django.db.backends.sqlite3"
    assert parsed["NAME"] == path


def test_sqlite_takes_its_write_lock_at_the_start_and_fires_every_trigger() -> None:
    options = database_url.parse("sqlite:///x", synchronous="NORMAL")["OPTIONS"]

    assert options["transaction_mode"] == "IMMEDIATE"
    assert "recursive_triggers=ON" in options["init_command"]
    assert "synchronous=NORMAL" in options["init_command"]


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_postgres_url_names_user_place_and_database(scheme: str) -> None:
    parsed = database_url.parse(f"{scheme}://ann:p%40ss@db.example:6432/core?sslmode=require")

    assert parsed["ENGINE"] == "statecore.storage.postgresql"
    assert (parsed["USER"], parsed["PASSWORD"]) == ("ann", "p@ss")
    assert (parsed["HOST"], parsed["PORT"], parsed["NAME"]) == ("db.example", "6432", "core")
    assert parsed["OPTIONS"]["sslmode"] == "require"


def test_a_postgres_url_may_name_a_unix_socket() -> None:
    parsed = database_url.parse("postgresql://postgres:@/postgres?host=/run/pg")

    assert (parsed["HOST"], parsed["USER"], parsed["NAME"]) == ("/run/pg", "postgres", "postgres")


def test_statements_are_bound_and_prepared_by_the_server() -> None:
    options = database_url.parse("postgres://h/n")["OPTIONS"]

    assert options["server_side_binding"] is True
    assert options["prepare_threshold"] == 2


def test_a_pool_replaces_the_connections_that_threads_keep() -> None:
    kept = database_url.parse("postgres://h/n")
    pooled = database_url.parse("postgres://h/n", pool=4)

    assert kept["CONN_MAX_AGE"] == 600
    assert "pool" not in kept["OPTIONS"]
    assert pooled["CONN_MAX_AGE"] == 0
    assert pooled["OPTIONS"]["pool"]["max_size"] == 4


def test_sqlite_needs_no_pool_but_keeps_no_connection_where_there_would_be_one() -> None:
    assert database_url.parse("sqlite:///a")["CONN_MAX_AGE"] == 600
    assert database_url.parse("sqlite:///a", pool=4)["CONN_MAX_AGE"] == 0


@pytest.mark.parametrize(
    "url",
    [
        "statecore.sqlite3",
        "mysql://host/name",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/file",
        "sqlite:///:memory:",
        "postgres://host",
        "postgres://host/",
        "postgres://host/a/b",
        "postgres://host:port/name",
        "postgres://[::1/name",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="it should be sqlite:///path"):
        database_url.parse(url)


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(ValueError, match="cannot be read") as refusal:
        database_url.parse("postgres://ann:hunter2@host:port/name")

    assert "hunter2" not in str(refusal.value)
