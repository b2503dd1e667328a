"""Empty databases for tests that start real processes."""

import os
import uuid
from pathlib import Path

import psycopg


def create_database(directory: Path) -> str:
    """Creates a database that no other test uses and returns its URL; it disappears with the test servers."""
    server = os.environ.get("DATABASE_URL")
    if server is None:
        return f"sqlite:///{directory}/own.sqlite3"
    name = f"own_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")
