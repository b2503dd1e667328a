"""Starts Statecore's processes, keeps them running, and stops them all."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

from statecore.project import environment, preflight, redis_server, redis_url, startup
from statecore.project.child import Child
from statecore.project.environment import EVERYWHERE, Environment
from statecore.project.refusal import Refused, one_sentence

TICK = 0.1
GRACE = 15.0
WEB_GRACE = 5


def broker(env: Environment) -> list[Child]:
    """The embedded Redis, unless there is one already."""
    socket_path = redis_url.socket_path(env.home)
    return [Child("redis", redis_server.command(socket_path))] if env.redis_is_embedded else []


def processes(env: Environment) -> list[Child]:
    """Everything that runs beside the broker; a new process is one new line."""
    return [
        Child("web", [*WEB, "--host", env.host, "--port", str(env.port)]),
        Child(
            "worker", [*CELERY, "worker", "--concurrency=2", "--without-gossip", "--without-mingle"]
        ),
        Child("beat", [*CELERY, "beat"]),
    ]


PYTHON = [sys.executable, "-m"]
CELERY = [*PYTHON, "celery", "--quiet", "--app=statecore.project"]
WEB = [
    *[
        *PYTHON,
        "uvicorn",
        "statecore.project.asgi:application",
        "--no-access-log",
        "--lifespan=off",
    ],
    # Without it an open stream would hold up the end for ever.
    f"--timeout-graceful-shutdown={WEB_GRACE}",
]


class Supervisor:
    def __init__(self, env: Environment) -> None:
        self.env = env
        self.children: list[Child] = []
        self.signals = 0

    def run(self) -> int:
        """Return the exit code: 0 when asked to stop, 1 when a process kept crashing."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            self._start()
            return self._watch()
        finally:
            self._stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _start(self) -> None:
        self._launch(broker(self.env))
        self._wait_for_broker()
        preflight.check_database()
        startup.migrate()
        self._greet_first_operator()
        _close_connections()
        if not self.signals:
            self._launch(processes(self.env))

    def _launch(self, children: list[Child]) -> None:
        for child in children:
            self.children.append(child)
            child.start()

    def _wait_for_broker(self) -> None:
        """An embedded Redis gets a moment to open its socket; one from outside must be there."""
        if self.children:
            _wait(lambda: bool(self.signals) or _answers(preflight.check_broker), 10.0)
        preflight.check_broker()

    def _greet_first_operator(self) -> None:
        if password := startup.first_operator():
            say(f"first operator: {startup.FIRST_OPERATOR}, password: {password}")
            say("note the password now: it is shown only this once.")

    def _watch(self) -> int:
        announced = False
        while not self.signals:
            for child in self.children:
                if news := child.tend():
                    say(news)
                if child.has_given_up:
                    return 1
            if not announced and _listens(self.env):
                announced = True
                say(f"ready: open {address(self.env)} (Ctrl-C stops it)")
            time.sleep(TICK)
        return 0

    def _stop(self) -> None:
        """The broker goes last: the others still talk to it while they end."""
        say("stopping.")
        asked = self.signals
        brokers = [child for child in self.children if child.name == "redis"]
        others = [child for child in self.children if child not in brokers]
        for group in (others, brokers):
            for child in group:
                child.terminate()
            # A second Ctrl-C does not wait.
            _wait(lambda group=group: self.signals > asked or not _any_runs(group), GRACE)
            for child in group:
                child.kill()
        say("stopped.")


def say(sentence: str) -> None:
    sys.stdout.write(f"statecore: {sentence}\n")
    sys.stdout.flush()


def address(env: Environment) -> str:
    host = "127.0.0.1" if env.host in EVERYWHERE else env.host
    return f"http://{f'[{host}]' if ':' in host else host}:{env.port}/"


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


def _any_runs(children: list[Child]) -> bool:
    return any(child.is_running for child in children)


def _listens(env: Environment) -> bool:
    host = "127.0.0.1" if env.host in EVERYWHERE else env.host
    try:
        socket.create_connection((host, env.port), timeout=1).close()
    except OSError:
        return False
    return True


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


def main() -> int:
    env = environment.read(os.environ)
    preflight.check_distribution()
    with startup.lock_home(env.home):
        startup.check_port(env.host, env.port)
        # Every process finds the same home, wherever it looks from.
        os.environ["STATECORE_HOME"] = str(env.home)
        os.environ["DJANGO_SETTINGS_MODULE"] = "statecore.project.settings"
        if env.redis_is_embedded:
            redis_server.make_place(redis_url.socket_path(env.home))
        import django

        django.setup()
        return Supervisor(env).run()


if __name__ == "__main__":
    with one_sentence():
        sys.exit(main())
