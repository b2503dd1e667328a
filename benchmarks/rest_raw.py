"""The REST baseline: a bare WSGI application with the minimal SQL, in one transaction per POST.

A transition is one guarded UPDATE and one INSERT of an event. A claim ends the task that the body names in the same
way, then takes the next queued one; without workers, leases, plans, rights or idempotency.
"""

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
NEXT = (
    "UPDATE raw_row SET state = 'running', version = version + 1 WHERE id = "
    "(SELECT id FROM raw_row WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)
TABLES = """
CREATE TABLE raw_row (id text PRIMARY KEY, state text NOT NULL, version integer NOT NULL DEFAULT 1);
CREATE INDEX raw_queue ON raw_row (id) WHERE state = 'queued';
CREATE TABLE raw_event (id bigserial PRIMARY KEY, entity_id text NOT NULL, body text NOT NULL);
"""
_local = threading.local()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path, given = environ["PATH_INFO"], orjson.loads(environ["wsgi.input"].read())
    connection = _connection()
    with connection.transaction():
        if path.endswith("/claim/"):
            answer = _report_and_claim(connection, given)
        else:
            answer = {"changed": _change(connection, path.split("/")[-3], "new", given["trigger"])}
    body = orjson.dumps(answer)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _report_and_claim(connection: Any, given: dict[str, Any]) -> dict[str, Any]:
    reports = [{"changed": _change(connection, each["task"], "running", "completed")} for each in given["reports"]]
    tasks = [{"id": row, "attempt": 1} for (row,) in connection.execute(NEXT, prepare=True).fetchall()]
    for task in tasks:
        connection.execute(INSERT, [task["id"], EVENT], prepare=True)
    return {"tasks": tasks, "reports": reports}


def _change(connection: Any, row: str, source: str, target: str) -> bool:
    changed = connection.execute(UPDATE, [target, row, source], prepare=True).rowcount
    connection.execute(INSERT, [row, EVENT], prepare=True)
    return bool(changed)


def _connection() -> psycopg.Connection[Any]:
    if not hasattr(_local, "connection"):
        _local.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    found: psycopg.Connection[Any] = _local.connection
    return found
