"""The real web process on the test database; it can be killed and restarted on the same port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import forked
from tests.support.waiting import is_listening, until

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    def __init__(self, home: Path, redis: str, **environ: str) -> None:
        from tests.support.sequencer import database_url  # Django is not set up when this plugin loads

        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "web.log"
        self.environ = {**os.environ, "DATABASE_URL": database_url(), "REDIS_URL": redis, **environ}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from statecore.project.commands import WEB

        with self.log.open("ab") as log:
            self.process = forked.Popen(
                [*WEB, "--port", str(self.port)],
                cwd=ROOT, env=self.environ, stdout=log, stderr=log,
            )  # fmt: skip
        until(self.answers, 60)

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return is_listening(self.port) and httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(20)


@contextmanager
def running(home: Path, redis: str, **environ: str) -> Iterator[Site]:
    site = Site(home, redis, **environ)
    try:
        site.start()
        yield site
    finally:
        if site.process is not None and site.process.poll() is None:
            site.end()


def token(scope: str, name: str = "") -> str:
    """Creates a token of a superuser and returns its secret."""
    from django.contrib.auth.models import User

    from statecore.records import token as tokens

    user: Any = User.objects.filter(username="ada").first() or User.objects.create_superuser("ada", password="!")
    _token, text = tokens.make(name or f"{scope}-token", user, scope)
    return text


@pytest.fixture(scope="module")
def the_site(django_db_setup: None, redis_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all tests of a module; retries are due within a second.

    Its connections would block tests of other modules that need the database for themselves.
    """
    quick = {"STATECORE_RETRY_BASE_SECONDS": "1", "STATECORE_RETRY_CAP_SECONDS": "1"}
    with running(tmp_path_factory.mktemp("site"), redis_server, **quick) as site:
        yield site


@pytest.fixture
def site(the_site: Site, transactional_db: None) -> Site:
    """The module's server, restarted if the previous test has stopped it."""
    if the_site.process is None or the_site.process.poll() is not None:
        the_site.start()
    return the_site
