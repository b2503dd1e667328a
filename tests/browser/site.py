"""A complete Statecore site for browser tests: database, Redis, sequencer and web server.

Its database is separate and is not emptied between tests, so that a page may stay open. A helper process changes data
on command while a browser is connected.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from statecore.project.commands import WEB
from tests.support import forked, redis
from tests.support.sequencer import ROOT, end
from tests.support.waiting import is_listening, read_line, until
from tests.support.web import free_port

PASSWORD = "correct horse battery"
SECOND_PERSON = "task->completed"


class Site:
    def __init__(self, home: Path, database_url: str) -> None:
        self.home, self.port = home, free_port()
        self.environ = {
            **os.environ,
            "DATABASE_URL": database_url,
            "REDIS_URL": f"unix://{home}/redis.sock",
            "STATECORE_HOME": str(home),
            "STATECORE_SECOND_PERSON": SECOND_PERSON,
            "DJANGO_SETTINGS_MODULE": "statecore.project.settings",
        }
        with ExitStack() as stack:
            self.stack = stack
            stack.enter_context(redis.running(home / "redis.sock"))
            self._open()
            # Closes what was opened when a later step fails.
            self.stack = stack.pop_all()

    def _open(self) -> None:
        self.hand = self.start("hand", ["-m", "tests.browser.hand"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.do("prepare")
        self.start("sequencer", ["manage.py", "sequencer"])
        self.open_web()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def do(self, what: str, **words: Any) -> Any:
        """Runs a command in the helper process and returns its reply."""
        self.hand.stdin.write(json.dumps({"do": what, **words}).encode() + b"\n")
        self.hand.stdin.flush()
        line = read_line(self.hand.stdout)
        assert line, (self.home / "hand.log").read_text()
        return json.loads(line)

    def open_web(self, **environ: str) -> None:
        self.web = self.start("web", [*WEB[1:], "--host", "127.0.0.1", "--port", str(self.port)], environ)
        until(self._answers, 60)

    def close_web(self) -> None:
        end(self.web, signal.SIGTERM)

    def close(self) -> None:
        self.stack.close()

    def _answers(self) -> bool:
        import httpx

        assert self.web.poll() is None, (self.home / "web.log").read_text()
        try:
            return is_listening(self.port) and httpx.get(f"{self.url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def start(self, name: str, words: list[str], environ: dict[str, str] | None = None, **streams: Any) -> Any:
        env = {**self.environ, **(environ or {})}
        with (self.home / f"{name}.log").open("ab") as log:
            streams = {"stdout": log, **streams}
            process = forked.Popen([sys.executable, *words], cwd=ROOT, env=env, stderr=log, **streams)
        for stream in filter(None, (process.stdin, process.stdout)):
            self.stack.callback(stream.close)
        self.stack.callback(end, process, signal.SIGKILL)
        return process


def log_in(page: Any, name: str, password: str = PASSWORD) -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", password)
    page.get_by_role("button", name="Log in").click()
