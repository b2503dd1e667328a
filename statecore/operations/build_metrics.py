"""What runs: the versions of an installation, and its connections to the database."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import django
from django.db import connection

from .. import __version__
from ..read_models.database_gauge import DatabaseGauge


class BuildInfo(DatabaseGauge):
    name = "statecore_build_info"
    documentation = "Always 1; the labels are the versions of this web process"
    labels = ("version", "python", "django", "database")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        yield (__version__, platform.python_version(), django.get_version(), connection.vendor), 1.0


class DatabaseConnections(DatabaseGauge):
    name = "statecore_database_connections"
    documentation = "Open connections to the database of all programs, and the server's limit; PostgreSQL only"
    labels = ("what",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        if connection.vendor != "postgresql":
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT numbackends, current_setting('max_connections')::int "
                "FROM pg_stat_database WHERE datname = current_database()"
            )
            opened, limit = cursor.fetchone()
        yield ("open",), opened
        yield ("limit",), limit
