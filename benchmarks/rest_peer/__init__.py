"""The peer of REST: Prefect 3's own server, on the same PostgreSQL, in a virtual environment of its own.

The environment is made by the first run and kept in .peers/; its packages are none of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.http_clients import Address, Request, free_port

HERE = Path(__file__).parent
REQUIREMENTS, SERVER = HERE / "requirements.txt", HERE / "server.py"
FOLDER = HERE.parent / ".peers" / "prefect"
BODY = b'{"state": {"type": "RUNNING"}}'
PATIENCE = 120.0


def python() -> str:
    """The interpreter of its environment, which is made anew when the requirements have changed."""
    own = str(FOLDER / "bin" / "python")
    stamp = FOLDER / REQUIREMENTS.name
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        pip = [own, "-m", "pip", "install", "--quiet", "--no-input", "--requirement", str(REQUIREMENTS)]
        subprocess.run(pip, check=True)
        shutil.copy(REQUIREMENTS, stamp)
    return own


@contextmanager
def server(home: Path, database: str) -> Iterator[Address]:
    """One process, the API alone: nothing that runs beside it, no page, no word to its makers."""
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
    # -P: else the folder of the script would stand before its packages.
    command = [python(), "-P", str(SERVER), address[0], str(address[1])]
    process = subprocess.Popen(command, env=os.environ | given)
    try:
        _await(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _await(address: Address, process: subprocess.Popen[bytes]) -> None:
    """It makes its tables before it answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _asked(HTTPConnection(*address, timeout=5), "GET", "/api/health")
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not answer")


def runs(address: Address, count: int) -> list[str]:
    """New flow runs of one flow, all of them pending."""
    connection = HTTPConnection(*address, timeout=PATIENCE)
    flow = _asked(connection, "POST", "/api/flows/", {"name": "bench"})["id"]
    wanted = {"flow_id": flow, "state": {"type": "PENDING"}}
    return [_asked(connection, "POST", "/api/flow_runs/", wanted)["id"] for _ in range(count)]


def _asked(connection: HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
    return json.loads(text)


def moves(ids: list[str]) -> list[Request]:
    return [(f"/api/flow_runs/{each}/set_state", BODY) for each in ids]
