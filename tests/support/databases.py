"""Databases for tests and for the processes they start. They disappear with the test servers."""

import fcntl
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[2]
TEMPLATE = "migrated"


def create_database(directory: Path, *, migrated: bool = False) -> str:
    """Creates a database that no other test uses and returns its URL. It is empty, or has the tables of Statecore."""
    name = f"own_{uuid.uuid4().hex}" if server_url() else f"{directory}/own.sqlite3"
    return create(name, migrated=migrated)


def create(name: str, *, migrated: bool) -> str:
    """Creates a database of this name, on SQLite a file, and returns its URL."""
    if migrated:
        migrate_template()
    if server_url():
        template = f"TEMPLATE {TEMPLATE}" if migrated else ""
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {template}")
    elif migrated:
        shutil.copyfile(template_file(), name)
    return url_of(name)


def url_of(name: str | Path) -> str:
    return server_url().replace("/postgres?", f"/{name}?") or f"sqlite:///{name}"


def server_url() -> str:
    """Returns the URL of the test server, which is empty on SQLite."""
    return os.environ.get("STATECORE_TEST_POSTGRES", "")


def template_file() -> Path:
    return Path(os.environ["STATECORE_TEST_BASE"]) / f"{TEMPLATE}.sqlite3"


def migrate_template() -> None:
    """Creates the database that is copied, once for all processes of the run: migrations take seconds."""
    done = template_file().with_suffix(".done")
    with template_file().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        url = create(TEMPLATE if server_url() else str(template_file()), migrated=False)
        command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url}, check=True, timeout=300)
        done.touch()


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Lets the connection of this process use another server."""
    from django.db import connection

    from statecore.project import database_url

    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(database_url.parse(url))
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)
