"""Calls at the same moment leave neither a gap nor a duplicate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections

from statecore.records import LogChunk, TaskLog
from tests.api.callers import Caller
from tests.logs.writing import read_texts, start_task, write

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS, CALLS = 6, 8


def test_concurrent_calls_leave_no_gap_and_no_duplicate() -> None:
    agent = Caller(name="agent-1")
    start_task(agent)

    def write_some(writer: int) -> list[int]:
        try:
            return [write(agent, f"{writer}-{call}-a", f"{writer}-{call}-b").json()["next"] for call in range(CALLS)]
        finally:
            connections.close_all()

    # SQLite in memory belongs to one connection.
    writers = 1 if connection.vendor == "sqlite" and connection.is_in_memory_db() else WRITERS  # type: ignore[attr-defined]
    with ThreadPoolExecutor(writers) as pool:
        answers = [number for found in pool.map(write_some, range(WRITERS)) for number in found]
    total = 2 * WRITERS * CALLS
    assert sorted(answers) == list(range(3, total + 2, 2))
    assert TaskLog.objects.get().next == total + 1
    covered = [number for first, last in _spans() for number in range(first, last + 1)]
    assert covered == list(range(1, total + 1))
    texts = read_texts(agent)
    assert len(set(texts)) == total
    for writer in range(WRITERS):  # the lines of one writer keep their order
        mine = [text for text in texts if text.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{call}-{part}" for call in range(CALLS) for part in "ab"]


def _spans() -> Any:
    return LogChunk.objects.order_by("first").values_list("first", "last")
