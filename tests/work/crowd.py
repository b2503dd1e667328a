"""Run calls concurrently: in threads on PostgreSQL, in forked processes on SQLite or on request.

A call takes no arguments; its result is its return value, or the exception it raised.
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

Call = Callable[[], Any]
WaitForStart = Callable[[], object]


def at_once(*calls: Call) -> list[Any]:
    return in_step([calls])[0]


def in_step(rounds: Sequence[Sequence[Call]]) -> list[list[Any]]:
    """Run the calls of each round concurrently, one round after the other."""
    columns = list(zip(*rounds, strict=True))
    found = (in_threads if connection.vendor == "postgresql" else in_processes)(*map(_in_sequence, columns), steps=True)
    return [list(answers) for answers in zip(*found, strict=True)]


def _in_sequence(calls: Sequence[Call]) -> Callable[[WaitForStart], list[Any]]:
    return lambda wait_for_start: [_attempt(call, wait_for_start) for call in calls]


def _attempt(call: Call, wait_for_start: WaitForStart) -> Any:
    connection.ensure_connection()
    wait_for_start()
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the test checks the exception
        return error


def _run_and_close(call: Callable[..., Any], wait_for_start: WaitForStart, *, steps: bool) -> Any:
    try:
        return call(wait_for_start) if steps else _attempt(call, wait_for_start)
    finally:
        connections.close_all()


def in_threads(*calls: Callable[..., Any], steps: bool = False) -> list[Any]:
    barrier = threading.Barrier(len(calls), timeout=PATIENCE)
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: _run_and_close(call, barrier.wait, steps=steps), calls))


def in_processes(*calls: Callable[..., Any], steps: bool = False) -> list[Any]:
    """Fork, so that a call need not be picklable; the children must not use the parent's connection."""
    connections.close_all()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(calls), timeout=PATIENCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child does not use the test runner's threads
        started = [_fork(context, lambda call=call: _run_and_close(call, barrier.wait, steps=steps)) for call in calls]
    answers = [_receive_result(pipe) for _process, pipe in started]
    for process, pipe in started:
        pipe.close()
        process.join(PATIENCE)
        process.close()
    return answers


def _fork(context: Any, run: Call) -> tuple[Any, Any]:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(run, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _send_result(run: Call, pipe: Any) -> None:
    result = run()
    try:
        data = pickle.dumps(result)
    except Exception:  # noqa: BLE001 - a result that cannot be pickled is sent as its repr
        data = pickle.dumps(RuntimeError(repr(result)))
    pipe.send_bytes(data)
    pipe.close()
    os._exit(0)


def _receive_result(pipe: Any) -> Any:
    assert pipe.poll(PATIENCE), "a process never answered"
    try:
        return pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own child
    except EOFError:
        return RuntimeError("a process died before it answered")
