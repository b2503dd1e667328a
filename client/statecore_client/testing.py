"""A throw-away server for tests: everything in one folder, with SQLite and its Redis, on a free port.

    with running_server() as server, Client(server.url, server.token) as statecore:
        statecore.create("phases", id="PH-1")

It starts the server's package, which must be installed beside the client (`pip install statecore`). With
`pytest_plugins = ["statecore_client.pytest_plugin"]`, tests have the fixture `statecore_server`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_SECONDS = 120.0
POLL_SECONDS = 0.1
FIRST_OPERATOR = "operator"  # the server creates it at its first start


class ServerNotStarted(RuntimeError):
    """The server is not installed, or did not start. The message has the end of its log."""


@dataclass(frozen=True)
class Server:
    """A running server. The token has the scope `override`, with which everything is allowed."""

    url: str
    token: str
    home: Path


@contextmanager
def running_server(**settings: str) -> Iterator[Server]:
    """Starts a server, and deletes it with its data at the end; `settings` are its environment variables."""
    home = Path(tempfile.mkdtemp(prefix="statecore-"))
    port = _find_free_port()
    environment = _build_environment(home, port, settings)
    try:
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "statecore.project.supervisor"], env=environment, cwd=_find_root(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(process, url, home)
            yield Server(url, _create_token(environment), home)
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _find_root() -> Path:
    """Returns the folder that contains the server's packages. Raises ServerNotStarted if it is not installed."""
    found = importlib.util.find_spec("statecore")
    if found is None or found.origin is None:
        raise ServerNotStarted("the server is not installed: pip install statecore")
    return Path(found.origin).parents[1]


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _build_environment(home: Path, port: int, settings: dict[str, str]) -> dict[str, str]:
    """Returns the environment without the settings of any other server that the caller uses."""
    others = ("DATABASE_URL", "REDIS_URL")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("STATECORE_") and name not in others
    }
    own = {
        "STATECORE_HOME": str(home / "home"),
        "PORT": str(port),
        "STATECORE_SQLITE_SYNCHRONOUS": "OFF",
        "DJANGO_SETTINGS_MODULE": "statecore.project.settings",
    }
    return {**inherited, **own, **settings}


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(POLL_SECONDS)
    raise ServerNotStarted(f"the server did not start:\n{(home / 'log').read_text(errors='replace')[-4000:]}")


def _create_token(environment: dict[str, str]) -> str:
    words = ["token", "create", "tests", "--user", FIRST_OPERATOR, "--scope", "override"]
    done = subprocess.run(
        [sys.executable, "-m", "django", *words], env=environment, cwd=_find_root(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise ServerNotStarted(f"the server created no token: {done.stderr[-2000:]}")
    return done.stdout.strip()
