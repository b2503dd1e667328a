"""The REST baseline: a bare WSGI application that runs one guarded UPDATE and one INSERT per POST."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import psycopg

EVENT = "x" * 700  # the size of an event
UPDATE = "UPDATE raw_row SET state = %s, version = version + 1 WHERE id = %s AND state = %s"
INSERT = "INSERT INTO raw_event (entity_id, body) VALUES (%s, %s)"
TABLES = """
CREATE TABLE raw_row (id text PRIMARY KEY, state text NOT NULL, version integer NOT NULL DEFAULT 1);
CREATE TABLE raw_event (id bigserial PRIMARY KEY, entity_id text NOT NULL, body text NOT NULL);
"""
_local = threading.local()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    row = environ["PATH_INFO"].split("/")[-3]
    trigger = orjson.loads(environ["wsgi.input"].read())["trigger"]
    connection = _connection()
    with connection.transaction():
        changed = connection.execute(UPDATE, [trigger, row, "new"], prepare=True).rowcount
        connection.execute(INSERT, [row, EVENT], prepare=True)
    body = orjson.dumps({"changed": bool(changed)})
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _connection() -> psycopg.Connection[Any]:
    if not hasattr(_local, "connection"):
        _local.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    found: psycopg.Connection[Any] = _local.connection
    return found
