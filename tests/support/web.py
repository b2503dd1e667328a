"""The real web server as a process on the test database."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from statecore.project.commands import WEB
from statecore.records import token as tokens
from tests.support import forked
from tests.support.sequencer import ROOT, database_url
from tests.support.waiting import is_listening, until


class Web:
    def __init__(self, home: Path, port: int | None = None, **environ: str) -> None:
        self.home, self.port, self.environ = home, port or free_port(), environ
        with (home / "web.log").open("ab") as log:
            self.process = forked.Popen(
                [sys.executable, *WEB[1:], "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=ROOT,
                env={**os.environ, **here(home), **environ},
                stderr=log,
                stdout=log,
            )
        until(self.listens, 60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.home / "web.log").read_text()

    def listens(self) -> bool:
        assert self.process.poll() is None, self.log
        return is_listening(self.port)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(20)


def here(home: Path) -> dict[str, str]:
    """The database and the secret key of the tests, so that their sessions are valid."""
    secret = {"STATECORE_SECRET_KEY": settings.SECRET_KEY}
    return {"DATABASE_URL": database_url(), "STATECORE_HOME": str(home), **secret}


@contextmanager
def running(home: Path, port: int | None = None, **environ: str) -> Iterator[Web]:
    web = Web(home, port, **environ)
    try:
        yield web
    finally:
        web.end(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bearer(scope: str = "read", name: str = "wall", expires_in: timedelta | None = None) -> dict[str, str]:
    """Creates a token of this scope and returns its Authorization header.

    User and token have no entries in the account journal, so that the first event of a test has position 1.
    """
    user = User.objects.filter(username=f"{name}-user").first()
    if user is None:
        (user,) = User.objects.bulk_create([User(username=f"{name}-user", password="!", is_superuser=True)])
    _token, text = tokens._create(name, user, scope, expires_in)
    return {"Authorization": f"Bearer {text}"}
