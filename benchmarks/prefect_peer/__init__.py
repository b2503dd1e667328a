"""Prefect 3's server on the same PostgreSQL, as a peer for the REST benchmark.

The first run creates a separate virtual environment in .peers/; its packages are not among our requirements.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.http_clients import Address, Request, free_port
from benchmarks.peer_python import python

HERE = Path(__file__).parent
REQUIREMENTS, SERVER = HERE / "requirements.txt", HERE / "server.py"
BODY = b'{"state": {"type": "RUNNING"}}'
PATIENCE = 120.0


@contextmanager
def server(home: Path, database: str) -> Iterator[Address]:
    """Runs the API in one process, without background services, UI and analytics."""
    address = ("127.0.0.1", free_port())
    given = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.replace("postgresql://", "postgresql+asyncpg://", 1),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }
    # -P: otherwise the script's folder would shadow its packages.
    command = [python("prefect", REQUIREMENTS), "-P", str(SERVER), address[0], str(address[1])]
    process = subprocess.Popen(command, env=os.environ | given)
    try:
        _await(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _await(address: Address, process: subprocess.Popen[bytes]) -> None:
    """Waits for the server, which creates its tables first."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _request(HTTPConnection(*address, timeout=5), "GET", "/api/health")
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not answer")


def runs(address: Address, count: int) -> list[str]:
    """Creates pending flow runs of one flow. Returns their ids."""
    connection = HTTPConnection(*address, timeout=PATIENCE)
    flow = _request(connection, "POST", "/api/flows/", {"name": "bench"})["id"]
    wanted = {"flow_id": flow, "state": {"type": "PENDING"}}
    return [_request(connection, "POST", "/api/flow_runs/", wanted)["id"] for _ in range(count)]


def _request(connection: HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
    return json.loads(text)


def set_state_requests(ids: list[str]) -> list[Request]:
    return [(f"/api/flow_runs/{each}/set_state", BODY) for each in ids]
