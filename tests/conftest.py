"""Gives the test run its own home directory and the database that STATECORE_TEST_DATABASE names.

This happens before Django reads its settings. Under xdist the controller starts the servers once, and the workers
find them through the environment.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

DATABASE = os.environ.get("STATECORE_TEST_DATABASE", "sqlite")
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
INHERITED = ("DATABASE_URL", "REDIS_URL", "HOST", "PORT")
TESTS = Path(__file__).parent
servers = ExitStack()
# The measured lines, the tests of --fast, a time limit for every test, and fixtures that start a real server.
pytest_plugins = ("tests.support.coverage", "tests.support.fast", "tests.support.limit", "tests.support.site")


def prepare_environment() -> None:
    ours = [name for name in os.environ if name.startswith("STATECORE_") and not name.startswith("STATECORE_TEST_")]
    for name in [*INHERITED, *ours]:
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
    reduce_costs()
    keep_clock()


def reduce_costs() -> None:
    """Cheapens password hashing, and the static file scan that Django's test client repeats for every client."""
    from django.conf import settings
    from django.contrib.auth.hashers import Argon2PasswordHasher

    Argon2PasswordHasher.time_cost, Argon2PasswordHasher.memory_cost, Argon2PasswordHasher.parallelism = 1, 8, 1
    settings.WHITENOISE_AUTOREFRESH = True


def keep_clock() -> None:
    """Uses the clock of this process, which tests stop and shift; the database's would cancel that out."""
    from statecore.storage import database_clock

    database_clock.is_followed = False


def postgres_url() -> str:
    if WORKER is None:
        from tests.support import postgres

        directory = Path(os.environ["STATECORE_TEST_BASE"]) / "pg"
        os.environ["STATECORE_TEST_POSTGRES"] = servers.enter_context(postgres.running(directory))
    return os.environ["STATECORE_TEST_POSTGRES"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """A worker that inherits DJANGO_SETTINGS_MODULE would load the settings before this file has chosen its home."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


def pytest_unconfigure() -> None:
    if WORKER is None:
        servers.close()
        shutil.rmtree(os.environ["STATECORE_TEST_BASE"], ignore_errors=True)


def pytest_report_header() -> str:
    return f"database: {DATABASE}"


RUN_TWICE = os.environ.get("STATECORE_TEST_TWICE") == "1"
ONCE_ON = re.compile(r'^pytestmark = .*\bonce_on\("(\w+)"\)', re.MULTILINE)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of the other database and starts the slow ones first, so that the run does not end with them.

    Browser tests come last: Playwright leaves an event loop running in its process, and no other loop can start there.
    """
    deselected = {item for item in items if runs_elsewhere(item)}
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = [item for item in items if item not in deselected]
    items.sort(key=lambda item: ("browser" in item.path.parts, item.get_closest_marker("slow") is None))


def runs_elsewhere(item: pytest.Item) -> bool:
    databases = {mark.name for mark in item.iter_markers()} & {"sqlite", "postgres"}
    if not RUN_TWICE:
        databases |= {mark.args[0] for mark in item.iter_markers("once_on")}
    return bool(databases - {DATABASE})


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out a module, or a package by its __init__.py, that states `once_on` for the other database.

    The text is read instead of the marker because importing the modules that will not run takes seconds.
    """
    source = collection_path / "__init__.py" if collection_path.is_dir() else collection_path
    if RUN_TWICE or source.suffix != ".py" or not source.exists():
        return None
    database = ONCE_ON.search(source.read_text())
    return True if database and database[1] != DATABASE else None


def pytest_collection_finish() -> None:
    """Exempts the collected tests and their imports from garbage collection: they stay until the end of the run."""
    from statecore.project.process_limits import freeze_loaded_objects

    freeze_loaded_objects()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """Gives this process a copy of the migrated database; on SQLite it is a file, as in production.

    Replaces Django's flush after transactional tests: it is slow, and the write guard's triggers refuse it.
    """
    from django.conf import settings
    from django.db import connections
    from django.test import TransactionTestCase

    from tests.support import databases, emptying, roles

    name = f"test_{WORKER or 'main'}" if DATABASE == "postgres" else str(settings.STATECORE_HOME / "test.sqlite3")
    databases.create(name, migrated=True)
    settings.DATABASES["default"]["NAME"] = name
    with django_db_blocker.unblock():
        if DATABASE == "postgres":
            roles.create()
        groups = emptying.read_group_permissions("default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: emptying.empty("default", groups))
        yield
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(autouse=True)
def _no_stale_reads() -> Iterator[None]:
    """Fails a statement that reads a table while a change of it is staged and not yet written."""
    from django.db import connection

    from tests.support.stale_reads import refuse_stale_reads

    with refuse_stale_reads(connection):
        yield


@pytest.fixture(autouse=True)
def _no_abandoned_connections() -> Iterator[None]:
    """Fails a test whose threads end without closing their connection: the warning would fail a later test."""
    from tests.support.abandoned_connections import refuse_abandoned_connections

    with refuse_abandoned_connections():
        yield


@pytest.fixture(autouse=True)
def _no_copies_of_other_journals() -> None:
    """Removes the copies of the journal that the previous test left in the shared home: they contradict this one."""
    from django.conf import settings

    for pattern in ("checkpoint*", "transitions*.jsonl"):
        for path in settings.STATECORE_HOME.glob(pattern):
            path.unlink()


@pytest.fixture
def no_reports_of_other_processes(db: None) -> None:
    """Deletes the reports of processes that ended after the tables of their test had been emptied."""
    from statecore.records import ProcessReport

    ProcessReport.objects.all().delete()


@pytest.fixture
def machines_in_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches reactions off: a transition of one machine causes none in another."""
    from statecore import reactions
    from statecore.kernel import registry

    others = [each for each in registry.reactions if each not in reactions.REACTIONS]
    monkeypatch.setattr(registry, "reactions", others)


@pytest.fixture
def home(settings: Any) -> Iterator[Path]:
    """A home directory for one test, with a path short enough for a Unix socket."""
    settings.STATECORE_HOME = Path(tempfile.mkdtemp(prefix="home-"))
    yield settings.STATECORE_HOME
    shutil.rmtree(settings.STATECORE_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """Starts the embedded Redis on the socket that the settings expect and returns its URL."""
    from django.conf import settings

    from statecore.project import redis_url
    from tests.support import redis

    with redis.running(redis_url.socket_path(settings.STATECORE_HOME)) as url:
        yield url
