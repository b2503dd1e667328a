"""Puts the tests on a home of their own and on the database that STATECORE_TEST_DATABASE names.

All of it happens before Django reads its settings. Under xdist the controller starts the
servers once and the workers find them through the environment.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

DATABASE = os.environ.get("STATECORE_TEST_DATABASE", "sqlite")
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
FROM_OUTSIDE = ("DATABASE_URL", "REDIS_URL", "HOST", "PORT")
TESTS = Path(__file__).parent
servers = ExitStack()
# A limit for every test, and a real server for whoever asks for one.
pytest_plugins = ("tests.support.limit", "tests.support.site")


def prepare_environment() -> None:
    ours = [name for name in os.environ if name.startswith("STATECORE_") and not name.startswith("STATECORE_TEST_")]
    for name in [*FROM_OUTSIDE, *ours]:
        os.environ.pop(name, None)
    if WORKER is None:
        os.environ["STATECORE_TEST_BASE"] = tempfile.mkdtemp(prefix="statecore-")
    os.environ["STATECORE_HOME"] = os.environ["STATECORE_TEST_BASE"] + f"/{WORKER or 'main'}"
    os.environ["STATECORE_SQLITE_SYNCHRONOUS"] = "OFF"
    os.environ["DJANGO_SETTINGS_MODULE"] = "statecore.project.settings"


prepare_environment()


def pytest_configure() -> None:
    if DATABASE not in ("sqlite", "postgres"):
        raise pytest.UsageError("STATECORE_TEST_DATABASE must be sqlite or postgres")
    if DATABASE == "postgres":
        os.environ["DATABASE_URL"] = postgres_url()
    import django

    django.setup()
    _make_cheap()


def _make_cheap() -> None:
    """What is slow on purpose, or done once by a server but here once for each client."""
    from django.conf import settings
    from django.contrib.auth.hashers import Argon2PasswordHasher

    Argon2PasswordHasher.time_cost, Argon2PasswordHasher.memory_cost, Argon2PasswordHasher.parallelism = 1, 8, 1
    settings.WHITENOISE_AUTOREFRESH = True


def postgres_url() -> str:
    if WORKER is None:
        from tests.support import postgres

        directory = Path(os.environ["STATECORE_TEST_BASE"]) / "pg"
        os.environ["STATECORE_TEST_POSTGRES"] = servers.enter_context(postgres.running(directory))
    return os.environ["STATECORE_TEST_POSTGRES"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """A worker that finds settings named would load them before this file chooses its home."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


def pytest_unconfigure() -> None:
    if WORKER is None:
        servers.close()
        shutil.rmtree(os.environ["STATECORE_TEST_BASE"], ignore_errors=True)


def pytest_report_header() -> str:
    return f"database: {DATABASE}"


# What reads the code meets no database. What speaks HTTP, or starts whole processes, meets it only behind the API, the
# pages, the doors and the services, and those are tested on both. Twice would take too long at every change: each runs
# where it is used most, and on both with STATECORE_TEST_TWICE=1.
ONCE = {
    "agent": "postgres",
    "api/test_rights.py": "postgres",
    "backup/test_drill.py": "postgres",
    "browser": "sqlite",
    "cli": "postgres",
    "client": "sqlite",
    "code": "sqlite",
    "dashboard/test_rights.py": "sqlite",
    "dashboard/test_second_factor.py": "sqlite",
    "deploy": "postgres",
    "documentation": "sqlite",
    "executors/test_compensation.py": "sqlite",
    "executors/test_kill.py": "postgres",
    "executors/test_patches.py": "sqlite",
    "executors/test_races.py": "postgres",
    "live": "postgres",
    "load": "postgres",
    "metrics/test_processes.py": "postgres",
    "project": "sqlite",
    "properties/test_command_line.py": "sqlite",
    "properties/test_parsers.py": "sqlite",
    "properties/test_readers.py": "sqlite",
    "properties/test_requests.py": "sqlite",
    "retention/test_kill.py": "postgres",
    "simulation": "postgres",
    "tools": "postgres",
    "work/test_kill.py": "postgres",
}
# Half a minute or more.
LONG = {
    "agent/test_crowd.py",
    "api/test_schemathesis.py",
    "backup/test_lost_machine.py",
    "documentation/test_tutorial.py",
    "executors/test_kill.py",
    "live/test_long_polls.py",
    "load/test_hour.py",
    "work/test_kill.py",
    "work/test_random_plans.py",
}
TWICE = os.environ.get("STATECORE_TEST_TWICE") == "1"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that nobody waits for it in the end.

    Browsers come last: their library leaves an event loop running in its process, beside which no other can start.
    """
    elsewhere = [item for item in items if runs_elsewhere(mark.name for mark in item.iter_markers())]
    config.hook.pytest_deselected(items=elsewhere)
    left_out = set(elsewhere)
    items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: ("browser" in item.path.parts, item.path.relative_to(TESTS).as_posix() not in LONG))


def runs_elsewhere(names: Iterable[str]) -> bool:
    return bool({"sqlite", "postgres"} & set(names) - {DATABASE})


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What runs on the other database only is not even loaded."""
    place = collection_path.relative_to(TESTS.parent).parts[1:]
    only = None if TWICE else ONCE.get("/".join(place)) or ONCE.get(place[0] if place else "")
    return True if only and runs_elsewhere([only]) else None


def pytest_collection_finish() -> None:
    """Thousands of tests and all that they import are there to stay: nobody has to look through them for garbage."""
    from statecore.project.memory import keep_what_is_loaded

    keep_what_is_loaded()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """SQLite in a file: processes and threads share it, as they do outside the tests."""
    from django.conf import settings

    if DATABASE == "sqlite":
        test = settings.DATABASES["default"].setdefault("TEST", {})
        test["NAME"] = str(settings.STATECORE_HOME / "test.sqlite3")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """What a test has committed is deleted in our own way: Django's is slow, and our triggers forbid it."""
    from django.test import TransactionTestCase

    from tests.support import emptying

    with django_db_blocker.unblock():
        groups = emptying.groups_of("default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: emptying.empty("default", groups))
        yield


# Here the machines are looked at one by one: what one does to another is for tests/work and its neighbours.
MACHINES_ALONE = {
    "api",
    "breakers",
    "crash",
    "door",
    "integrity",
    "kernel",
    "machines",
    "properties",
    "races",
    "sinks",
    "stuck",
    "toy",
}


@pytest.fixture(autouse=True)
def _machines_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from statecore import reactions
    from statecore.kernel import registry

    if MACHINES_ALONE & set(request.path.relative_to(TESTS).parts):
        others = [reaction for reaction in registry.reactions if reaction is not reactions.follow]
        monkeypatch.setattr(registry, "reactions", others)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The embedded Redis, where the settings expect it."""
    from django.conf import settings

    from statecore.project import redis_url
    from tests.support import redis

    with redis.running(redis_url.socket_path(settings.STATECORE_HOME)) as url:
        yield url
