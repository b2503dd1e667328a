"""The roles of `manage.py roles --sql` on the test database: real processes connect as `web`, tests as a superuser."""

import os
import re
from urllib.parse import urlsplit

import psycopg
from django.db import connection

from statecore.storage import roles

# Roles belong to the server, which the workers of xdist share; databases do not.
PREFIX = f"tests_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


def create() -> None:
    """Creates the roles and gives the tables to the owner; what `migrate` does afterwards grants the rights."""
    with connection.cursor() as cursor:
        for statement in roles.write_sql(PREFIX, "public", connection.settings_dict["NAME"]):
            cursor.execute(statement)
    roles.grant_rights(connection)


def create_in(database: str) -> dict[str, str]:
    """Creates the roles of a new, empty database and returns the URL for each."""
    every_role = (roles.OWNER, *roles.PROCESSES)
    if not database.startswith("postgres"):
        return dict.fromkeys(every_role, database)
    name = urlsplit(database).path.removeprefix("/")
    with psycopg.connect(database, autocommit=True) as connected:
        for statement in roles.write_sql(name, "public", name):
            connected.execute(statement)
    return {role: re.sub("//[^/@]*@", f"//{name}_{role}@", database) for role in every_role}
