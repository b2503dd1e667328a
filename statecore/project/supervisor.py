"""Starts Statecore's processes, keeps them running, and stops them all."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import django

from statecore.project import commands, environment, metrics_folder, preflight, redis_server, redis_url, startup
from statecore.project.child import Child
from statecore.project.environment import EVERYWHERE, Environment
from statecore.project.refusal import Refused

TICK = 0.1
GRACE = 15.0


def brokers(env: Environment) -> list[Child]:
    """The embedded Redis, unless REDIS_URL names another."""
    socket_path = redis_url.socket_path(env.home)
    return [Child("redis", redis_server.command(socket_path))] if env.redis_is_embedded else []


def processes(env: Environment) -> list[Child]:
    """Everything that runs beside the broker, in one web process; a new process is one new word."""
    names = ["web", "worker", "beat", *(["executors"] if commands.runs_commands(env) else []), "sequencer"]
    return [Child(name, commands.COMMANDS[name](env)) for name in names]


class Supervisor:
    def __init__(self, env: Environment) -> None:
        self.env = env
        self.brokers = brokers(env)
        self.processes = processes(env)
        self.signals = 0

    def run(self) -> int:
        """Return the exit code: 0 when asked to stop, 1 when a process kept crashing."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            self._start()
            return self._watch()
        finally:
            # The broker goes last: the others still talk to it while they end.
            self._end(self.processes)
            self._end(self.brokers)
            say("stopped.")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _start(self) -> None:
        for broker in self.brokers:
            broker.start()
        # An embedded Redis needs a moment to open its socket.
        _wait(lambda: self.signals > 0 or _answers(preflight.check_broker), 10.0)
        preflight.check_broker()
        startup.migrate(lambda: self.signals > 0)
        startup.check_integrity(start_anyway=self.env.start_anyway)
        if password := startup.first_operator():
            say(f"first operator: {startup.FIRST_OPERATOR}, password: {password}")
            say("note the password now: it is shown only this once.")
        _close_connections()

    def _watch(self) -> int:
        """Start what does not run, until a signal or a process that cannot be kept running."""
        announced = False
        while not self.signals:
            for child in [*self.brokers, *self.processes]:
                if news := child.tend():
                    say(news)
                if child.has_given_up:
                    return 1
            if not announced and _listens(self.env):
                announced = True
                say(f"ready: open {address(self.env)} (Ctrl-C stops it)")
            time.sleep(TICK)
        say("stopping.")
        return 0

    def _end(self, children: list[Child]) -> None:
        """Ask, wait a bounded time, then kill; a further signal does not wait."""
        asked = self.signals
        for child in children:
            child.terminate()
        _wait(lambda: self.signals > asked or not any(c.is_running for c in children), GRACE)
        for child in children:
            child.kill()


def say(sentence: str) -> None:
    # Nobody may be reading any more; that is no reason to leave processes behind.
    with suppress(OSError):
        sys.stdout.write(f"statecore: {sentence}\n")
        sys.stdout.flush()


def address(env: Environment) -> str:
    host = _reachable(env.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{env.port}/"


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in EVERYWHERE else host


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(TICK / 2)


def _answers(check: Callable[[], None]) -> bool:
    try:
        check()
    except Refused:
        return False
    return True


def _listens(env: Environment) -> bool:
    try:
        socket.create_connection((_reachable(env.host), env.port), timeout=1).close()
    except OSError:
        return False
    return True


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


def main() -> int:
    preflight.check_distribution()
    env = environment.read(os.environ)
    with startup.lock_home(env.home):
        startup.check_port(env.host, env.port)
        # Every process finds the same home, wherever it looks from.
        os.environ["STATECORE_HOME"] = str(env.home)
        os.environ["DJANGO_SETTINGS_MODULE"] = "statecore.project.settings"
        metrics_folder.prepare(env.home)
        django.setup()
        startup.check_declarations()
        preflight.check_database()
        if env.redis_is_embedded:
            redis_server.make_place(redis_url.socket_path(env.home))
        else:
            preflight.check_broker()
        return Supervisor(env).run()


if __name__ == "__main__":
    sys.exit(main())
