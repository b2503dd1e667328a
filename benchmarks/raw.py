"""The baseline: a guarded UPDATE and an INSERT of a prepared event in one transaction, using only the driver."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection

Ids = Sequence[Any]
Contender = Callable[[Ids], Any]

HASH = "ab" * 32
BODY = '{"event_id":"' + "x" * 690 + '"}'  # the size of a task's event
TASK = (
    "UPDATE twin_task SET state = %s, version = %s, chain_head = %s, updated_at = %s, state_entered_at = %s, "
    "exit_code = 0, worker_id = NULL, lease_expires_at = NULL WHERE id = %s AND state = %s AND version = %s"
)
UET_WORKER = (
    "UPDATE twin_uetworker SET state = %s, version = %s, chain_head = %s, updated_at = %s, state_entered_at = %s "
    "WHERE id = %s AND state = %s AND version = %s"
)
EVENT = f"INSERT INTO twin_event VALUES ({', '.join(['%s'] * 16)})"  # noqa: S608 - only placeholders


class Edge(NamedTuple):
    trigger: str
    source: str
    target: str


FINISH = Edge("execution_completed", "running", "validating")
TAKE, RELEASE = Edge("task_assigned", "IDLE", "BUSY"), Edge("task_completed", "BUSY", "IDLE")


def event(entity_type: str, entity_id: str, version: int, edge: Edge, at: Any) -> tuple[Any, ...]:
    """Returns the columns of an event without chaining, canonical bytes or hashing."""
    return (
        f"evt_{time.time_ns():026d}", entity_type, entity_id, version, "normal", *edge, "info", "bench", "rest",
        at, "", HASH, BODY, HASH,
    )  # fmt: skip


class Postgres:
    """psycopg with prepared statements and the driver's BEGIN and COMMIT."""

    def __init__(self) -> None:
        import psycopg

        given = connection.settings_dict
        self.connection = psycopg.connect(
            dbname=given["NAME"], user=given["USER"], password=given["PASSWORD"], host=given["HOST"],
            port=given["PORT"] or None, prepare_threshold=0,
        )  # fmt: skip
        self.cursor = self.connection.cursor()

    def now(self) -> Any:
        return datetime.now(UTC)

    def write(self, update: str, row: Sequence[Any], event: Sequence[Any], count: int = 1, insert: str = EVENT) -> None:
        self.cursor.execute(update, row)
        assert self.cursor.rowcount == count  # noqa: S101 - the row must have matched
        self.cursor.execute(insert, event)
        self.connection.commit()


class Sqlite:
    """sqlite3 with the project's pragmas."""

    def __init__(self) -> None:
        given = connection.settings_dict
        self.connection = sqlite3.connect(given["NAME"], isolation_level=None, timeout=20)
        self.connection.executescript(given["OPTIONS"]["init_command"])

    def now(self) -> Any:
        return datetime.now(UTC).isoformat(" ")

    def write(self, update: str, row: Sequence[Any], event: Sequence[Any]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        cursor = self.connection.execute(update.replace("%s", "?"), row)
        assert cursor.rowcount == 1  # noqa: S101 - the row must have matched
        self.connection.execute(EVENT.replace("%s", "?"), event)
        self.connection.execute("COMMIT")


@cache
def session() -> Any:
    return Postgres() if connection.vendor == "postgresql" else Sqlite()


def finish(ids: Ids) -> None:
    write, now = session().write, session().now
    for entity_id in ids:
        at = now()
        row = (FINISH.target, 2, HASH, at, at, entity_id, FINISH.source, 1)
        write(TASK, row, event("task", entity_id, 2, FINISH, at))


def take_and_release() -> Contender:
    versions: dict[str, int] = {}

    def run(ids: Ids) -> None:
        write, now = session().write, session().now
        for entity_id in ids:
            at, version = now(), versions.get(entity_id, 1)
            edge = TAKE if version % 2 else RELEASE
            row = (edge.target, version + 1, HASH, at, at, entity_id, edge.source, version)
            write(UET_WORKER, row, event("uet_worker", entity_id, version + 1, edge, at))
            versions[entity_id] = version + 1

    return run


MANY_TASKS = (
    "UPDATE twin_task AS t SET state = %s, version = g.version, chain_head = g.hash, updated_at = %s, "
    "state_entered_at = %s, exit_code = 0, worker_id = NULL, lease_expires_at = NULL "
    "FROM unnest(%b::text[], %b::int[], %b::text[]) AS g(id, version, hash) "
    "WHERE t.id = g.id AND t.state = %s AND t.version = g.version - 1"
)
MANY_EVENTS = (
    "INSERT INTO twin_event SELECT g.event_id, %s, g.entity_id, g.sequence, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
    "g.prev_hash, g.body, g.hash FROM unnest(%b::text[], %b::text[], %b::int[], %b::text[], %b::text[], %b::text[]) "
    "AS g(event_id, entity_id, sequence, prev_hash, body, hash)"
)


def finish_many(ids: Ids) -> None:
    """Updates all rows with one statement: arrays for columns that differ, single values for the rest."""
    at, count = session().now(), len(ids)
    start = time.time_ns()
    event_ids = [f"evt_{start + number:026d}" for number in range(count)]
    versions, hashes = [2] * count, [HASH] * count
    row = (FINISH.target, at, at, list(ids), versions, hashes, FINISH.source)
    same = ("task", "normal", *FINISH, "info", "bench", "rest", at, "")
    arrays = (event_ids, list(ids), versions, hashes, [BODY] * count, hashes)
    session().write(MANY_TASKS, row, (*same, *arrays), count, MANY_EVENTS)
