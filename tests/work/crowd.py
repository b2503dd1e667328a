"""Doing things at the same time: threads on PostgreSQL, forked processes on SQLite, where threads share nothing either.

A deed is called without arguments; what it returns, or the exception it raises, comes back in the order of the deeds.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, connections

from tests.races.contest import PATIENCE

Deed = Callable[[], Any]


def at_once(*deeds: Deed) -> list[Any]:
    if connection.vendor == "postgresql":
        return in_threads(*deeds)
    return in_processes(*deeds)


def _attempt(deed: Deed, set_off: Callable[[], object]) -> Any:
    connection.ensure_connection()
    set_off()
    try:
        return deed()
    except Exception as error:  # noqa: BLE001 - whatever escapes is for the test to judge
        return error


def in_threads(*deeds: Deed) -> list[Any]:
    barrier = threading.Barrier(len(deeds), timeout=PATIENCE)

    def run(deed: Deed) -> Any:
        try:
            return _attempt(deed, barrier.wait)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(run, deeds))


def in_processes(*deeds: Deed) -> list[Any]:
    """Forked, so that a deed may be anything; nobody may use the parent's connection."""
    connections.close_all()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(deeds), timeout=PATIENCE)
    started = []
    for deed in deeds:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_live, args=(deed, barrier, theirs), daemon=True)
        process.start()
        theirs.close()
        started.append((process, ours))
    answers = [_hear(pipe) for _process, pipe in started]
    for process, pipe in started:
        pipe.close()
        process.join(PATIENCE)
        process.close()
    return answers


def _hear(pipe: Any) -> Any:
    assert pipe.poll(PATIENCE), "a process never answered"
    try:
        return pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own child
    except EOFError:
        return RuntimeError("a process died before it answered")


def _live(deed: Deed, barrier: Any, pipe: Any) -> None:
    told = _attempt(deed, barrier.wait)
    try:
        said = pickle.dumps(told)
    except Exception:  # noqa: BLE001 - a refusal that cannot be sent is told by its words
        said = pickle.dumps(RuntimeError(repr(told)))
    connections.close_all()
    pipe.send_bytes(said)
    pipe.close()
    os._exit(0)
