"""Doing things at the same time: threads on PostgreSQL, forked processes on SQLite or where they are asked for.

A deed is called without arguments; what it returns, or the exception it raises, comes back in its place.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, connections

from tests.races.contest import PATIENCE

Deed = Callable[[], Any]
SetOff = Callable[[], object]


def at_once(*deeds: Deed) -> list[Any]:
    return in_step([deeds])[0]


def in_step(rounds: Sequence[Sequence[Deed]]) -> list[list[Any]]:
    """The deeds of each round at once, one round after the other."""
    columns = list(zip(*rounds, strict=True))
    found = (in_threads if connection.vendor == "postgresql" else in_processes)(*map(_in_turn, columns), steps=True)
    return [list(answers) for answers in zip(*found, strict=True)]


def _in_turn(deeds: Sequence[Deed]) -> Callable[[SetOff], list[Any]]:
    return lambda set_off: [_attempt(deed, set_off) for deed in deeds]


def _attempt(deed: Deed, set_off: SetOff) -> Any:
    connection.ensure_connection()
    set_off()
    try:
        return deed()
    except Exception as error:  # noqa: BLE001 - whatever escapes is for the test to judge
        return error


def _live(deed: Callable[..., Any], set_off: SetOff, *, steps: bool) -> Any:
    try:
        return deed(set_off) if steps else _attempt(deed, set_off)
    finally:
        connections.close_all()


def in_threads(*deeds: Callable[..., Any], steps: bool = False) -> list[Any]:
    barrier = threading.Barrier(len(deeds), timeout=PATIENCE)
    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(lambda deed: _live(deed, barrier.wait, steps=steps), deeds))


def in_processes(*deeds: Callable[..., Any], steps: bool = False) -> list[Any]:
    """Forked, so that a deed may be anything; nobody may use the parent's connection."""
    connections.close_all()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(deeds), timeout=PATIENCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of the test runner are not used by the child
        started = [_fork(context, lambda deed=deed: _live(deed, barrier.wait, steps=steps)) for deed in deeds]
    answers = [_hear(pipe) for _process, pipe in started]
    for process, pipe in started:
        pipe.close()
        process.join(PATIENCE)
        process.close()
    return answers


def _fork(context: Any, live: Deed) -> tuple[Any, Any]:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(live, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _tell(live: Deed, pipe: Any) -> None:
    told = live()
    try:
        said = pickle.dumps(told)
    except Exception:  # noqa: BLE001 - an answer that cannot be sent is told by its words
        said = pickle.dumps(RuntimeError(repr(told)))
    pipe.send_bytes(said)
    pipe.close()
    os._exit(0)


def _hear(pipe: Any) -> Any:
    assert pipe.poll(PATIENCE), "a process never answered"
    try:
        return pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own child
    except EOFError:
        return RuntimeError("a process died before it answered")
