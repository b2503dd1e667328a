"""The installation of tests/deploy on a PostgreSQL and Redis that can be killed, with automatic restarts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import psycopg

from statecore.project import redis_server
from tests.deploy.topology import Topology
from tests.support import postgres
from tests.support.postgres import Mortal
from tests.support.waiting import until

RESTART_AFTER = 2.0  # seconds, as in the systemd units
# Retries are accelerated too: failed tasks are due again within seconds.
FASTER = {"STATECORE_RETRY_BASE_SECONDS": "1", "STATECORE_RETRY_CAP_SECONDS": "2"}
# All clients share one token.
UNTHROTTLED = {"STATECORE_CALLS_PER_MINUTE": "1000000"}
REDIS, NGINX = "redis", "nginx"


class Installation(Topology):
    def __init__(self, directory: Path, server: Mortal) -> None:
        self.server, self.socket = server, directory / "redis.sock"
        super().__init__(directory, _database(server), f"unix://{self.socket}")
        self.environ |= {**FASTER, **UNTHROTTLED}
        self.ended: dict[str, float] = {}

    def start(self) -> None:
        self._start_redis()
        super().start()

    def _start_redis(self) -> None:
        self._run(REDIS, redis_server.command(self.socket))

    def parts(self) -> list[str]:
        return list(self.running)

    def crash(self, name: str) -> None:
        """Sends SIGKILL; `restart_ended` restarts the process later."""
        with suppress(ProcessLookupError):  # it has already ended
            os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait(20)

    def crash_database(self) -> None:
        """Kills PostgreSQL, which drops all connections, and waits until it has recovered."""
        self.server.kill()
        until(self._database_is_back)

    def _database_is_back(self) -> bool:
        try:
            self.server.start()
        except (subprocess.SubprocessError, RuntimeError):  # still recovering, on a busy machine
            return False
        return True

    def restart_ended(self) -> None:
        """Restarts ended processes after a delay, like systemd's Restart=always with RestartSec=."""
        for name, process in list(self.running.items()):
            if process.poll() is None:
                continue
            if monotonic() - self.ended.setdefault(name, monotonic()) >= RESTART_AFTER:
                del self.ended[name]
                self._restart(name)

    def _restart(self, name: str) -> None:
        if name == REDIS:
            self._start_redis()
        elif name == NGINX:
            self._run_nginx()
        else:
            self.start_unit(next(unit for unit in self.units if unit.name == name))


def _database(server: Mortal) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE soak")
    return str(server.url.replace("/postgres?", "/soak?"))


@contextmanager
def running(directory: Path, *, durable: bool) -> Iterator[Installation]:
    os.environ.setdefault("STATECORE_TEST_BASE", str(directory))
    with postgres.mortal(durable=durable) as server:
        installation = Installation(directory, server)
        try:
            installation.start()
            yield installation
        finally:
            installation.end()
