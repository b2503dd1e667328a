"""An empty database of its own, for a test that starts real processes."""

import os
import uuid
from pathlib import Path

import psycopg


def fresh_url(directory: Path) -> str:
    """The URL of a database nobody else uses; it goes when the servers of the tests go."""
    server = os.environ.get("DATABASE_URL")
    if server is None:
        return f"sqlite:///{directory}/own.sqlite3"
    name = f"own_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")
