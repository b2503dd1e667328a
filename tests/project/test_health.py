"""Health checks."""

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client


def test_healthz_needs_no_database(client: Client) -> None:
    response = client.get("/healthz")

    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


@pytest.mark.django_db
def test_a_process_that_can_work_is_ready(client: Client, redis_server: str) -> None:
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


@pytest.mark.django_db
def test_readiness_names_an_unreachable_broker(client: Client, settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/redis.sock"

    response = client.get("/readyz")

    assert response.status_code == 503
    assert response.json() == {"status": "unavailable", "failed": ["broker"]}


@pytest.mark.django_db
def test_readiness_runs_only_the_named_checks(client: Client, settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/redis.sock"

    assert client.get("/readyz?check=database&check=migrations").status_code == 200
    assert client.get("/readyz?check=database&check=weather").json()["failed"] == ["weather"]


@pytest.mark.django_db
def test_readiness_names_a_migration_that_was_not_applied(client: Client, redis_server: str) -> None:
    MigrationRecorder(connection).record_unapplied("axes", "0010_accessattemptexpiration")

    response = client.get("/readyz")

    assert response.status_code == 503
    assert response.json()["failed"] == ["migrations"]


@pytest.mark.django_db(transaction=True)
def test_readiness_names_an_unreachable_database(
    client: Client, redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.close()
    elsewhere = "/nowhere/statecore" if connection.vendor == "sqlite" else "nowhere"
    monkeypatch.setitem(connection.settings_dict, "NAME", elsewhere)

    response, of_one = client.get("/readyz"), client.get("/readyz?check=sequencer")
    connection.close()

    assert (response.status_code, of_one.status_code) == (503, 503)
    assert response.json()["failed"] == [
        "database",
        "migrations",
        "processes",
        "leader",
        "sequencer",
        "system",
        "integrity",
    ]
    assert of_one.json()["failed"] == ["sequencer"]
