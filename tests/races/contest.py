"""Contenders that call the transition service at the same moment: threads on PostgreSQL, processes on SQLite.

An answer holds plain values, because it may come from another process.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

THREADS = 8
PROCESSES = 4
PATIENCE = 60.0  # seconds to wait for a barrier or a process


@dataclass(frozen=True)
class Call:
    """One call of the transition service: `Call("transition", "task", ("task-1", "worker_started"), {...})`."""

    verb: str
    entity_type: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The result of a call: an outcome, a refusal, or an unexpected exception."""

    outcome: Any = None
    refused: dict[str, Any] | None = None
    escaped: str = ""

    @property
    def won(self) -> bool:
        return self.refused is None and not self.escaped

    @property
    def code(self) -> str | None:
        return self.refused and self.refused["code"]


def holds_every_permission(permission: str) -> bool:
    return True


def operator(name: str = "ada", account: int | None = None) -> Any:
    """A picklable operator with every permission."""
    from statecore.kernel.actors import Actor, Channel, Kind

    return Actor(name, Kind.OPERATOR, Channel.CONSOLE, has_permission=holds_every_permission, account=account)


def make_call(call: Call, set_off: Callable[[], object]) -> Answer:
    """Connects, waits for the other contenders, and makes the call."""
    from django.db import connection, connections

    from statecore import transitions
    from statecore.kernel import registry
    from statecore.kernel.refusals import Refusal
    from statecore.transitions import approvals

    try:
        if call.verb in ("approve", "deny"):
            verb = getattr(approvals, call.verb)
        else:
            verb = partial(getattr(transitions, call.verb), registry.flow(call.entity_type).model)
        connection.ensure_connection()
        set_off()
        return Answer(outcome=_plain(verb(*call.args, **call.kwargs)))
    except Refusal as refusal:
        return Answer(refused=refusal.as_dict())
    except Exception:  # noqa: BLE001 - whatever escapes is what the test is about
        return Answer(escaped=traceback.format_exc())
    finally:
        connections.close_all()


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return {item.entity_id: item.refusal.code if item.refusal else None for item in result}
    return {**result.as_dict(), "replayed": result.replayed}


class Threads:
    """Contenders on PostgreSQL."""

    size = THREADS

    def race(self, calls: Sequence[Call]) -> list[Answer]:
        barrier = threading.Barrier(len(calls), timeout=PATIENCE)
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(lambda call: make_call(call, barrier.wait), calls))


class Processes:
    """Contenders on SQLite; they serve all races, because starting Django is slow."""

    size = PROCESSES

    def __init__(self, database: str) -> None:
        context = multiprocessing.get_context("spawn")
        # Referenced here: a late process cannot open a semaphore after its last owner is gone.
        self.barrier = context.Barrier(self.size, timeout=PATIENCE)
        self.started: list[tuple[Any, Connection]] = []
        for _ in range(self.size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self.barrier, database), daemon=True)
            process.start()
            theirs.close()
            self.started.append((process, ours))

    def race(self, calls: Sequence[Call]) -> list[Answer]:
        assert len(calls) <= self.size
        # The barrier waits for all processes, including those without a call.
        for index, (_process, pipe) in enumerate(self.started):
            pipe.send(calls[index] if index < len(calls) else None)
        return [self._answer_of(pipe) for _process, pipe in self.started][: len(calls)]

    def _answer_of(self, pipe: Connection) -> Answer:
        assert pipe.poll(PATIENCE), "a contender never answered"
        found: Answer = pipe.recv()
        return found

    def stop(self) -> None:
        for process, pipe in self.started:
            pipe.close()
            process.join(PATIENCE)
            process.close()


def _serve(pipe: Connection, barrier: Any, database: str) -> None:
    """Makes calls until the other end of the pipe is closed."""
    os.environ["DATABASE_URL"] = f"sqlite:///{database}"
    import django

    django.setup()
    from tests.support.world import disable_reactions

    disable_reactions()
    while True:
        try:
            call = pipe.recv()
        except EOFError:
            return
        if call is None:
            barrier.wait()
            pipe.send(Answer())
        else:
            pipe.send(make_call(call, barrier.wait))


Contest = Threads | Processes


@contextmanager
def contest() -> Iterator[Contest]:
    """The contenders for the database under test."""
    from django.db import connection

    if connection.vendor == "postgresql":
        yield Threads()
        return
    processes = Processes(str(connection.settings_dict["NAME"]))
    try:
        yield processes
    finally:
        processes.stop()
