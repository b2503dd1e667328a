"""A real server process with the API, on the test database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.sequencer import database_url
from tests.support.waiting import is_listening, until

ROOT = Path(__file__).parents[2]
APPLICATION = "statecore.project.wsgi:application"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def settings(redis: str) -> dict[str, str]:
    """Environment variables for the database and the broker of the tests."""
    return {"DATABASE_URL": database_url(), "REDIS_URL": redis, "STATECORE_LOG_LEVEL": "WARNING"}


@contextmanager
def running(redis: str, log: Path, threads: int = 8, **environ: str) -> Iterator[str]:
    """Yields the server's URL as soon as it answers."""
    port = free_port()
    given = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--blocking-threads", str(threads)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "granian", *given, "--no-ws", APPLICATION],
            cwd=ROOT,
            env={**os.environ, **settings(redis), **environ},
            stdout=out,
            stderr=out,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(address, process), timeout=60)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _answers(address: str, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"the server ended with {process.returncode}")
    try:
        return (
            is_listening(address.rpartition(":")[2]) and httpx.get(f"{address}/healthz", timeout=5).status_code == 200
        )
    except httpx.TransportError:
        return False
